package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superloop/superloop/loop/journal"

	"github.com/superloop/superloop/recovery/sandbox"
)

// A want is what a script says of a JSON object: PATH=VALUE, PATH~REGEXP or, for
// something that must not be there, !PATH. A path has dots, and numbers for the
// places in a list: sandbox.notes.0.
type want struct {
	path, value string
	re          *regexp.Regexp
	absent      bool
}

var wantForm = regexp.MustCompile(`(?s)^(!?)([A-Za-z0-9_.]+)(?:([=~])(.*))?$`)

func wants(ts *testscript.TestScript, args []string) []want {
	var all []want
	for _, arg := range args {
		m := wantForm.FindStringSubmatch(arg)
		if m == nil || (m[1] == "!") != (m[3] == "") {
			ts.Fatalf("%q is not PATH=VALUE, PATH~REGEXP or !PATH", arg)
		}
		w := want{path: m[2], value: m[4], absent: m[1] == "!"}
		if m[3] == "~" {
			var err error
			w.re, err = regexp.Compile(m[4])
			ts.Check(err)
		}
		all = append(all, w)
	}
	return all
}

// lookup finds what stands at a path.
func lookup(v any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func (w want) holds(doc any) bool {
	v, ok := lookup(doc, w.path)
	if w.absent || !ok {
		return w.absent && !ok
	}
	text, isText := v.(string)
	if !isText {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if enc.Encode(v) != nil {
			return false
		}
		text = strings.TrimSpace(b.String())
	}
	if w.re != nil {
		return w.re.MatchString(text)
	}
	return text == w.value
}

func fits(doc any, all []want) bool {
	for _, w := range all {
		if !w.holds(doc) {
			return false
		}
	}
	return true
}

// decoded keeps numbers as they are written.
func decoded(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// journalOf are the events of the last run of the loop that LOOP names ("one" by
// default) of the repository in which the script is.
func journalOf(ts *testscript.TestScript) []any {
	id := ts.Getenv("LOOP")
	if id == "" {
		id = "one"
	}
	var all []any
	ts.Check(journal.Read(ts.MkAbs(filepath.Join(".superloop", "loops", id, "events.jsonl")), 0, func(ev journal.Event) error {
		line, err := journal.AppendLine(nil, ev)
		ts.Check(err)
		v, err := decoded(line)
		all = append(all, v)
		return err
	}))
	if len(all) == 0 {
		return nil
	}
	run, _ := lookup(all[len(all)-1], "run_id")
	return slices.DeleteFunc(all, func(ev any) bool { id, _ := lookup(ev, "run_id"); return id != run })
}

// event wants an event of that name with these fields, exactly N of them with
// -count=N, or none with a "!" before it.
func event(ts *testscript.TestScript, neg bool, args []string) {
	count := -1
	if len(args) > 0 && strings.HasPrefix(args[0], "-count=") {
		var err error
		count, err = strconv.Atoi(args[0][len("-count="):])
		ts.Check(err)
		args = args[1:]
	}
	usage(ts, len(args) >= 1 && (!neg || count < 0), "[!] event [-count=N] NAME [PATH=VALUE | PATH~REGEXP | !PATH]...")
	all := wants(ts, append([]string{"event=" + args[0]}, args[1:]...))
	found, named := 0, []string{}
	for _, ev := range journalOf(ts) {
		if fits(ev, all) {
			found++
		}
		if fits(ev, all[:1]) {
			line, err := json.Marshal(ev)
			ts.Check(err)
			named = append(named, string(line))
		}
	}
	if neg && found > 0 || !neg && count < 0 && found == 0 || count >= 0 && found != count {
		ts.Fatalf("%d events are %s; of that name there are\n%s", found, strings.Join(args, " "), strings.Join(named, "\n"))
	}
}

// inOrder wants events of these names one after the other, others in between.
// An argument may name fields behind the name: NAME,PATH=VALUE.
func inOrder(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "inorder NAME[,PATH=VALUE]...")
	rest := args
	var names []string
	for _, ev := range journalOf(ts) {
		name, _ := lookup(ev, "event")
		names = append(names, fmt.Sprint(name))
		if len(rest) == 0 {
			continue
		}
		parts := strings.Split(rest[0], ",")
		if fits(ev, wants(ts, append([]string{"event=" + parts[0]}, parts[1:]...))) {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		ts.Fatalf("no %s after the others; the events are %s", rest[0], strings.Join(names, " "))
	}
}

// jsonFile wants exactly one file of that pattern, and these fields in it.
func jsonFile(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "json FILE [PATH=VALUE | PATH~REGEXP | !PATH]...")
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%d files are %s", len(found), args[0])
	}
	data, err := os.ReadFile(found[0])
	ts.Check(err)
	doc, err := decoded(data)
	ts.Check(err)
	for _, w := range wants(ts, args[1:]) {
		if !w.holds(doc) {
			ts.Fatalf("%s does not hold of %s:\n%s", w.path, args[0], data)
		}
	}
}

// condition knows [bare]: testdata/bare.sh works here; and [user]: an ordinary
// user gets namespaces here.
func condition(name string) (bool, error) {
	switch name {
	case "bare":
		return exec.Command("sh", "testdata/bare.sh", "true").Run() == nil, nil
	case "user":
		return exec.Command("sh", "testdata/user.sh", "unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "true").Run() == nil, nil
	case "root":
		return os.Geteuid() == 0 && exec.Command("unshare", "-m", "-p", "-f", "--mount-proc", "mount", "-t", "cgroup2", "none", "/sys/fs/cgroup").Run() == nil, nil
	case "wall":
		return sandbox.Wall() == nil, nil
	case "nohup":
		return signal.Ignored(syscall.SIGHUP), nil
	}
	return false, fmt.Errorf("there is no condition %q", name)
}
