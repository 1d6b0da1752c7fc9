package agent

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
)

// maxArg is the longest argument or environment entry that Linux accepts, in bytes: 128 KiB including the NUL byte at
// its end.
const maxArg = 128<<10 - 1

// Command describes a process that is ready to start.
type Command struct {
	Argv  []string
	Dir   string   // absolute
	Env   []string // complete, sorted, without duplicates
	Stdin string   // the absolute path of the file on standard input; "" means none
	// File is the absolute path of a file that has to hold FileText before the start, for settings that a CLI reads
	// only from a file. "" means none.
	File, FileText string
}

// assemble makes the command in the form that all CLIs share:
//
//	Command + flags + Args (or FastArgs) [+ the prompt]
//
// It replaces the placeholders in Command, Args and the values of Env, as plain strings and in one pass. It does not
// search the replacements for placeholders, so a prompt that mentions {model} stays as it is. Unknown placeholders
// stay, too. flags and env come from the adapter and are used as they are. The owner's own Env takes precedence over
// env.
func assemble(req Request, environ, flags []string, env map[string]string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
	}
	args := req.args()
	placed := slices.ContainsFunc(slices.Concat(req.CLI.Command, args), holdsPrompt)
	prompt := ""
	if req.CLI.PromptMode == PromptArg || placed || slices.ContainsFunc(slices.Collect(maps.Values(req.CLI.Env)), holdsPrompt) {
		var size int64
		var err error
		if prompt, size, err = door.Ends(req.PromptPath, maxArg, 0); err != nil {
			return Command{}, fmt.Errorf("reading the prompt: %w", err)
		}
		if size > maxArg {
			return Command{}, tooLong("the prompt as an argument", size)
		}
	}
	fill := placeholders(req, prompt)
	c := Command{Dir: req.WorkDir, Argv: slices.Concat(req.CLI.Command, flags, args)}
	for i, w := range c.Argv {
		if n := len(req.CLI.Command); i < n || i >= n+len(flags) {
			c.Argv[i] = fill.Replace(w)
		}
	}
	if req.CLI.PromptMode == PromptArg && !placed {
		c.Argv = append(c.Argv, prompt)
	}
	if req.CLI.stdin() {
		c.Stdin = req.PromptPath
	}
	own := map[string]string{}
	for name, value := range req.CLI.Env {
		if !validName(name) {
			return Command{}, fmt.Errorf("the runner's env has a name %q, which cannot be one", name)
		}
		own[name] = fill.Replace(value)
	}
	c.Env = environment(environ, env, own, req)
	return c, c.check()
}

// placeholders replaces all placeholders in one pass: those of the documented contract, and {prompt}, {loop_dir} and
// {thinking}.
func placeholders(req Request, prompt string) *strings.Replacer {
	return strings.NewReplacer(
		"{repo}", req.WorkDir, "{prompt_file}", req.PromptPath, "{prompt}", prompt, "{last_message_file}", req.LastMessageFile,
		"{model}", req.Model, "{thinking}", req.Thinking, "{loop}", req.Loop, "{loop_dir}", req.LoopDir,
		"{iteration}", strconv.Itoa(req.Iteration), "{role}", req.Role,
	)
}

// builder collects the flags that superloop adds to a command. It adds no flag that the owner has set.
type builder struct {
	Request
	words, flags []string
	err          error
}

func flagsFor(req Request) *builder { return &builder{Request: req, words: req.words()} }

// add adds flags unless the owner has set one of own, which are names separated by spaces.
func (b *builder) add(own string, flags ...string) {
	if !hasFlag(b.words, strings.Fields(own)...) {
		b.flags = append(b.flags, flags...)
	}
}

// model adds the flag for the model, unless the owner has placed {model} in the command.
func (b *builder) model() {
	placed := slices.ContainsFunc(b.words, func(w string) bool { return strings.Contains(w, "{model}") })
	if b.Model != "" && !placed {
		b.add("--model -m", "--model="+b.Model)
	}
}

// permit adds the flags for the role's permissions. With PermitWorkspace it also allows the loop's directory if that
// lies outside the working directory, as it does for a worktree.
func (b *builder) permit(own string, flags map[string][]string) {
	list := flags[b.Permissions]
	if b.Permissions == PermitWorkspace && !inside(b.LoopDir, b.WorkDir) {
		list = append(list, "--add-dir="+b.LoopDir)
	}
	b.add(own, list...)
}

// session adds the flag resume with the session to resume, or the flag fresh with the id of a new session. If fresh is
// "", a new session gets no flag.
func (b *builder) session(own, resume, fresh string) {
	id := b.SessionID
	if b.Resume != nil {
		fresh, id = resume, b.Resume.ID
	}
	if !hasFlag(b.words, strings.Fields(own)...) && fresh != "" && (id != "" || b.Resume != nil) {
		b.flags, b.err = append(b.flags, fresh+id), checkSession(id)
	}
}

func (b *builder) command(environ []string, env map[string]string) (Command, error) {
	if b.err != nil {
		return Command{}, b.err
	}
	return assemble(b.Request, environ, b.flags, env)
}

func (r Request) words() []string {
	if len(r.CLI.Command) == 0 {
		return nil
	}
	return slices.Concat(r.CLI.Command[1:], r.args())
}

// hasFlag reports whether the words have one of the flags, written as "--name", "--name=value", "-n" or "-nvalue".
// Nothing after "--" is a flag.
func hasFlag(words []string, names ...string) bool { return len(flagValues(words, names...)) > 0 }

// flagValue returns the value of the last of the flags.
func flagValue(words []string, names ...string) (value string, ok bool) {
	for _, value = range flagValues(words, names...) {
		ok = true
	}
	return value, ok
}

// flagValues returns the values of the flags: the text after "=" or after the letter, else the next word.
func flagValues(words []string, names ...string) (values []string) {
	for i, w := range words {
		if w == "--" {
			break
		}
		for _, name := range names {
			rest, found := strings.CutPrefix(w, name)
			if !found || rest != "" && rest[0] != '=' && strings.HasPrefix(name, "--") {
				continue
			}
			value := strings.TrimPrefix(rest, "=")
			if rest == "" && i+1 < len(words) {
				value = words[i+1]
			}
			values = append(values, value)
		}
	}
	return values
}

// defaults returns the entries of env that the supervisor's own environment does not set.
func defaults(environ []string, env map[string]string) map[string]string {
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		delete(env, name)
	}
	return env
}

var plainID = pattern.Lazy(`^[0-9A-Za-z_.][-0-9A-Za-z_.]{0,199}$`)

// checkSession refuses an id that could be read as a flag or a placeholder, because the id comes from a CLI's output.
func checkSession(id string) error {
	if !plainID().MatchString(id) {
		return fmt.Errorf("the session id %q cannot be one: only letters, digits, dashes, dots and underscores are taken", id)
	}
	return nil
}

// inside reports whether the directory path is dir or below it. Both are absolute.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func holdsPrompt(s string) bool { return strings.Contains(s, "{prompt}") }

func tooLong(what string, size int64) error {
	return fmt.Errorf(`%s would be %d bytes long, and the system takes at most %d: set the runner's prompt_mode to "stdin" or "file"`, what, size, maxArg)
}

// check finds errors for which exec would return an unclear message.
func (c Command) check() error {
	for i, a := range c.Argv {
		if err := checkArg(fmt.Sprintf("argument %d of the command", i), a); err != nil {
			return err
		}
	}
	if c.Argv[0] == "" {
		return errors.New("the program's name is empty once its placeholders are replaced")
	}
	for _, e := range c.Env {
		name, _, _ := strings.Cut(e, "=")
		if err := checkArg("the value of "+name+" in the environment", e); err != nil {
			return err
		}
	}
	return nil
}

func checkArg(what, arg string) error {
	switch {
	case strings.ContainsRune(arg, 0):
		return fmt.Errorf("%s holds a NUL byte, which no program can be given", what)
	case len(arg) > maxArg:
		return tooLong(what, int64(len(arg)))
	}
	return nil
}

// MarkVariable is the variable with the run id. By it superloop recognises the processes that a dead supervisor has
// left.
const MarkVariable = "SUPERLOOP_MARK"

// environment returns the environment of the agent, sorted by name, each name once. The sources in rising precedence
// are the part of the supervisor's environment that the filter lets through, the adapter's additions, the runner's Env,
// and the variables of the documented contract.
func environment(base []string, adapter, runner map[string]string, req Request) []string {
	all := map[string]string{}
	pass := filter(req.CLI)
	for _, e := range base {
		name, value, ok := strings.Cut(e, "=")
		if ok && validName(name) && pass(name) {
			all[name] = value
		}
	}
	maps.Copy(all, adapter)
	maps.Copy(all, runner)
	maps.Copy(all, map[string]string{
		"PWD": req.WorkDir, MarkVariable: req.RunID, "SUPERLOOP_RUN_ID": req.RunID, "SUPERLOOP_LOOP": req.Loop,
		"SUPERLOOP_ITERATION": strconv.Itoa(req.Iteration), "SUPERLOOP_ATTEMPT": strconv.Itoa(req.Attempt),
		"SUPERLOOP_ROLE": req.Role, "SUPERLOOP_MODEL": req.Model, "SUPERLOOP_REPO": req.Repo,
		"SUPERLOOP_LOOP_DIR": req.LoopDir, "SUPERLOOP_LAST_MESSAGE_FILE": req.LastMessageFile,
	})
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// Environment returns the environment of a command that superloop itself runs for the loop, such as the tests.
func Environment(base []string, req Request) []string { return environment(base, nil, nil, req) }

// basic are the variables that any program needs, besides those whose names begin with LC_ or XDG_.
const basic = " PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM NO_COLOR TMPDIR TEMP TMP HOSTNAME " +
	"HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy " +
	"SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CI "

// sharedLogin is the variable with the path of the file that holds the login of a whole cloud. filter lets it through,
// because tools need it and the path is no secret.
const sharedLogin = "GOOGLE_APPLICATION_CREDENTIALS"

// filter returns a function that says which variables of the supervisor's environment a CLI gets. The CLI always gets
// the variables in PassEnv and its own keys. It gets no SUPERLOOP_* variable, because these control this supervisor or
// its tests, or belong to an outer superloop whose agent runs this one. It gets no keys of other CLIs, unless its
// adapter is generic, because an agent cannot print a key that it never had. It gets all other variables if PassEnv is
// nil, and otherwise only the basic ones.
func filter(cli CLI) func(name string) bool {
	own := For(cli)
	keys := own.Profile().Keys
	return func(name string) bool {
		switch {
		case slices.Contains(cli.PassEnv, name):
			return true
		case strings.HasPrefix(name, "SUPERLOOP_"):
			return false
		case slices.Contains(keys, name):
			return true
		case allKeys()[name] && own != (generic{}) && name != sharedLogin:
			return false
		}
		basic := strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") || strings.Contains(basic, " "+name+" ")
		return cli.PassEnv == nil || basic
	}
}

// allKeys returns the variables that hold the keys of any CLI.
var allKeys = sync.OnceValue(func() map[string]bool {
	keys := map[string]bool{}
	for _, a := range Adapters() {
		for _, name := range a.Profile().Keys {
			keys[name] = true
		}
	}
	return keys
})

// Secrets returns a Replacer that removes the values of all credentials in environ and in the runner's own Env: the
// keys that the adapters know, and every variable whose name says that it is a secret.
func Secrets(environ []string, own map[string]string) *redact.Replacer {
	environ = slices.Clip(environ)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		environ = append(environ, name+"="+own[name])
	}
	var secrets []string
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		// A key variable may hold the path of a file with the credential. The path is no secret.
		if (allKeys()[name] || speaksOfSecret(name)) && !strings.HasPrefix(value, string(os.PathSeparator)) {
			secrets = append(secrets, value)
		}
	}
	return redact.Values(secrets)
}

// speaksOfSecret reports whether the end of a variable's name says that its value is a secret.
func speaksOfSecret(name string) bool {
	ends := []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"}
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(strings.ToUpper(name), end) })
}

func validName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }
