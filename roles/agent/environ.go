package agent

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/redact"
)

// MarkVariable carries the run id, by which the processes of a dead supervisor are told from others.
const MarkVariable = "SUPERLOOP_MARK"

// environment is what the agent gets, sorted by name, each name once. From the weakest to the strongest: what the
// filter lets through of the supervisor's environment, the adapter's additions, the runner's Env, and what the contract
// promises.
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

// Environment is that of a command which superloop itself runs in the agent's place, such as the tests.
func Environment(base []string, req Request) []string { return environment(base, nil, nil, req) }

// basic are the variables that any program needs; those that begin with LC_ and XDG_ too.
const basic = " PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM NO_COLOR TMPDIR TEMP TMP HOSTNAME " +
	"HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy " +
	"SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CI "

// sharedLogin names the file with the login of a whole cloud, which tools need. It is a path and no key.
const sharedLogin = "GOOGLE_APPLICATION_CREDENTIALS"

// filter says which variables of the supervisor's environment a CLI gets. Not those named SUPERLOOP_*: they steer this
// supervisor or its tests, or belong to an outer superloop in whose agent this one runs. Not the keys of other CLIs:
// what an agent never had it cannot print. An owner who wants one passed on names it in pass_env or in the runner's
// env.
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

// allKeys are the variables with the keys of any CLI.
var allKeys = sync.OnceValue(func() map[string]bool {
	keys := map[string]bool{}
	for _, a := range Adapters() {
		for _, name := range a.Profile().Keys {
			keys[name] = true
		}
	}
	return keys
})

// Secrets takes the values of all credentials in environ, and in the runner's own Env, out of what it is given: the
// keys that the adapters know, and every variable whose name says that it is a secret.
func Secrets(environ []string, own map[string]string) *redact.Replacer {
	environ = slices.Clip(environ)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		environ = append(environ, name+"="+own[name])
	}
	var secrets []string
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		// A key may be the path of a file with the credential, which is no secret.
		if (allKeys()[name] || speaksOfSecret(name)) && !strings.HasPrefix(value, string(os.PathSeparator)) {
			secrets = append(secrets, value)
		}
	}
	return redact.Values(secrets)
}

// speaksOfSecret goes by the last words of a variable's name, as everybody writes them.
func speaksOfSecret(name string) bool {
	ends := []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"}
	return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(strings.ToUpper(name), end) })
}

func validName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }
