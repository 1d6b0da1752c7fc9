package classify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
)

// The probes, by the names that handlers use. Each comment gives, in brackets, the capture that the probe reads, and
// then the meaning of Holds and Value in the Finding.
const (
	ProbeDeclared   = "declared"    // [pkg] yes: the project declares the package; Value: installed, missing or broken
	ProbeFirstLine  = "first_line"  // [script] yes: its interpreter exists; no: Value is crlf, empty or the missing interpreter
	ProbeWritable   = "writable"    // [path] yes: superloop may write the path or its nearest existing directory
	ProbeFreeSpace  = "free_space"  // [path] yes: bytes and inodes are free; Value: free bytes
	ProbeLockHolder = "lock_holder" // [lock] yes: a live process, Value its pid, holds the file; no: Value is stale, free or gone
	ProbePortOwner  = "port_owner"  // [port] yes: a process of superloop listens, no: another does; Value: its pid; unknown: none or hidden
	ProbeWhich      = "which"       // [tool] yes: the program is on PATH; Value: its path
	ProbeService    = "service"     // [port] yes: a process listens on the port now
	ProbeExists     = "exists"      // [path] yes: the file exists
	ProbeOOM        = "oom"         // yes: in superloop's control group the kernel has killed a process for memory
)

// System is the Prober that looks at this machine. It runs no program and changes nothing. A probe that is not possible
// on this machine answers Unknown.
type System struct {
	Path string // the value of PATH that the probe which searches; "" means that of this process
}

// Probe makes the probe with this name. For an unknown name the answer is Unknown.
func (s System) Probe(ctx context.Context, name string, captures map[string]string, in *Input) Finding {
	at := func(capture string) string { return place(in.Dir, captures[capture]) }
	looks := map[string]func() Finding{
		ProbeDeclared:   func() Finding { return declared(in.Dir, captures["pkg"]) },
		ProbeFirstLine:  func() Finding { return firstLine(at("script")) },
		ProbeWritable:   func() Finding { return writable(at("path")) },
		ProbeFreeSpace:  func() Finding { return freeSpace(at("path"), in.Dir) },
		ProbeLockHolder: func() Finding { return lockHolder(at("lock"), in.Dir) },
		ProbePortOwner:  func() Finding { return portOwner(captures["port"]) },
		ProbeWhich:      func() Finding { return s.which(captures["tool"]) },
		ProbeService:    func() Finding { return service(captures["port"]) },
		ProbeExists:     func() Finding { return exists(at("path")) },
		ProbeOOM:        oomKilled,
	}
	f := Finding{Detail: "there is no such probe"}
	if ctx.Err() != nil {
		f = Finding{}
	} else if look := looks[name]; look != nil {
		f = look()
	}
	f.Name, f.Holds = name, cmp.Or(f.Holds, Unknown)
	return f
}

// place turns a path that a tool has printed into an absolute one, relative to dir. It returns "" if it cannot.
func place(dir, path string) string {
	path = strings.Trim(strings.TrimSpace(path), `'"`)
	path = strings.TrimPrefix(path, "file://")
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	case strings.HasPrefix(path, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		return filepath.Join(home, path[2:])
	case dir == "":
		return ""
	}
	return filepath.Join(dir, path)
}

func exists(path string) Finding {
	if path == "" {
		return Finding{}
	}
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return Finding{Holds: No, Value: path, Detail: "there is no such file"}
	case err != nil:
		return Finding{Detail: err.Error()}
	case info.Mode()&os.ModeSymlink != 0:
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return Finding{Holds: No, Value: path, Detail: "it is a symbolic link to nothing"}
		}
	}
	return Finding{Holds: Yes, Value: path}
}

func (s System) which(tool string) Finding {
	if tool == "" || strings.ContainsRune(tool, 0) {
		return Finding{}
	}
	if strings.ContainsRune(tool, '/') {
		return exists(place("", tool))
	}
	for _, dir := range filepath.SplitList(cmp.Or(s.Path, os.Getenv("PATH"))) {
		full := filepath.Join(dir, tool)
		if info, err := os.Stat(full); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return Finding{Holds: Yes, Value: full}
		}
	}
	return Finding{Holds: No, Value: tool, Detail: tool + " is not on PATH"}
}

// firstLine finds out whether a script's first line ends in CR LF, and whether the interpreter that it names exists.
func firstLine(path string) Finding {
	if path == "" {
		return Finding{}
	}
	f, _, err := door.OpenOwn(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, door.ErrNotRegular) || errors.Is(err, syscall.ENOTDIR) {
		return Finding{Detail: "the script is not there"}
	}
	if err != nil {
		return Finding{Detail: err.Error()}
	}
	defer f.Close()
	buf, _ := io.ReadAll(io.LimitReader(f, 512))
	line, _, whole := bytes.Cut(buf, []byte("\n"))
	switch {
	case whole && bytes.HasSuffix(line, []byte("\r")):
		return Finding{Holds: No, Value: "crlf", Detail: "its lines end in CR LF"}
	case !bytes.HasPrefix(line, []byte("#!")):
		if bytes.HasPrefix(buf, []byte("\x7fELF")) {
			return Finding{Detail: "it is a program, not a script"}
		}
		return Finding{Detail: "it names no interpreter"}
	}
	words := strings.Fields(string(line[2:]))
	if len(words) == 0 {
		return Finding{Holds: No, Value: "empty", Detail: "its first line names no interpreter"}
	}
	if _, err := os.Stat(words[0]); err != nil {
		return Finding{Holds: No, Value: words[0], Detail: "its interpreter " + words[0] + " is not there"}
	}
	if rest := afterFlags(words[1:]); filepath.Base(words[0]) == "env" && len(rest) > 0 && (System{}).which(rest[0]).Holds == No {
		return Finding{Holds: No, Value: rest[0], Detail: "its interpreter " + rest[0] + " is not on PATH"}
	}
	return Finding{Holds: Yes, Value: words[0]}
}

// nearestDir returns the path itself, if it exists, or the closest existing directory above it. It returns "" for "".
func nearestDir(path string) string {
	for n := 0; path != "" && n < 64; n++ {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path) // ends at "/" or ".", which exist
	}
	return ""
}

// portNumber parses the number of a TCP port, from 1 to 65535.
func portNumber(s string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	return n, err == nil && n > 0 && n < 65536
}

// maxProbes bounds how many probes one verdict may make.
const maxProbes = 6

// probe makes the probes of the primary match and notes what their answers say about the cause.
func (j *judgement) probe(ctx context.Context, m *match) {
	for _, name := range m.rule.h.Probes[:min(len(m.rule.h.Probes), maxProbes)] {
		f := j.ask(ctx, name, m.captures)
		j.findings[name] = f
		j.confirmed = j.confirmed || slices.Contains(confirming[name], f.Holds)
		if m.refuted == "" && f.Holds == refuting[name] && (name != ProbeService || m.byTest()) {
			m.refuted = f.Detail
		}
		switch {
		case name != ProbeDeclared:
		case f.Holds == Yes && f.Value == "installed" && m.hit != nil && nodeImport().MatchString(m.hit.text):
			// Node.js prints the same message for a missing package and for a file that an intact package does not
			// have.
			j.undeclared = true
		case f.Holds == Yes:
			j.confirmed = true
		case f.Holds == No:
			j.undeclared = true
		default:
			j.weakened = true
		}
	}
}

// confirming holds, for each probe, the answers that prove that the environment is to blame.
var confirming = map[string][]Answer{
	ProbeFreeSpace: {No}, ProbeWritable: {No}, ProbeExists: {No}, ProbeWhich: {No}, ProbeFirstLine: {No},
	ProbeLockHolder: {Yes}, ProbeOOM: {Yes}, ProbePortOwner: {Yes, No},
}

// refuting holds, for some probes, the answer that contradicts what a line of output says. A service that answers
// contradicts only the words of a test: for a tool it may have started since.
var refuting = map[string]Answer{ProbeFreeSpace: Yes, ProbeWhich: Yes, ProbeService: Yes}

// nodeImport matches the message of Node.js or of a bundler about an import that finds nothing.
var nodeImport = pattern.Lazy(`(?i)cannot find (?:module|package) |can't resolve |could not resolve |failed to (?:load url|resolve import) `)

// ownModule reports whether a dotted module belongs to the same package as the file that imports it. For example,
// app.models belongs to the package of app/views.py.
func ownModule(pkg, file string) bool {
	top, _, dotted := strings.Cut(pkg, ".")
	return dotted && top != "" && file != "" && !foreign(file) && slices.Contains(strings.Split(path.Dir(filepath.ToSlash(file)), "/"), top)
}

// ask makes one probe and returns its answer. If the captures alone decide the answer, ask does not look at the system.
func (j *judgement) ask(ctx context.Context, name string, captures map[string]string) Finding {
	if name == ProbeDeclared && relative().MatchString(captures["pkg"]) {
		return Finding{Name: name, Holds: No, Value: captures["pkg"], Detail: "it is a place in the project, not a package"}
	}
	if name == ProbeDeclared && ownModule(captures["pkg"], captures["file"]) {
		return Finding{Name: name, Holds: No, Value: captures["pkg"], Detail: "the file that imports it is of the same package"}
	}
	if j.in.Probes == nil {
		return Finding{Name: name, Holds: Unknown, Detail: "not looked at"}
	}
	f := j.in.Probes.Probe(ctx, name, captures, j.in)
	f.Name = name
	if f.Holds != Yes && f.Holds != No {
		f.Holds = Unknown
	}
	return f
}

// full reports whether a probe of free space or of memory confirms a dominator. The caller asks if only a test has
// printed the dominator's message.
func (j *judgement) full(ctx context.Context, m *match) bool {
	for _, name := range m.rule.h.Probes {
		if confirms := map[string]Answer{ProbeFreeSpace: No, ProbeOOM: Yes}[name]; confirms != "" {
			j.findings[name] = j.ask(ctx, name, m.captures)
			if j.findings[name].Holds == confirms {
				return true
			}
		}
	}
	return false
}
