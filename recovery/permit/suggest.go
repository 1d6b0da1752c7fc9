package permit

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// Past is something that an agent has asked for, once or more, with what people answered.
type Past struct {
	Request Request
	Whole   bool // Request has all of what was asked: nothing was cut or hidden
	Facts   Facts
	Of      *recovery.Policy // the recovery policy of the loop, as Compile takes it
	Asked   int
	// How often a person approved it, a person refused it, and nobody answered in time.
	Approved, Refused, Unanswered int
}

// words is what was asked for, for people and to compare.
func (p Past) words() string {
	r := p.Request
	switch r.Kind {
	case Command:
		return r.Command
	case Fetch:
		return strings.TrimSpace(r.Tool + " " + r.Host)
	}
	return strings.TrimSpace(r.Tool + " " + strings.Join(r.Paths, " "))
}

// Suggestion is an entry for a list of Settings.
type Suggestion struct {
	List  string `json:"list"` // auto_approve, auto_approve_programs, hosts or tools
	Entry string `json:"entry"`
	// How often something was asked for that the entry helps to grant, a person approved that, and nobody answered.
	Asked      int    `json:"asked"`
	Approved   int    `json:"approved"`
	Unanswered int    `json:"unanswered"`
	Example    string `json:"example"` // one such request; foreign text
}

// LeftOut is what Suggest does not suggest.
type LeftOut struct {
	What    string `json:"what"` // foreign text
	Asked   int    `json:"asked"`
	Refused int    `json:"refused"`
	Why     string `json:"why"`
}

// The lists of Settings that Suggest fills.
const (
	listCommands = "auto_approve"
	listPrograms = "auto_approve_programs"
	listHosts    = "hosts"
	listTools    = "tools"
)

// grantable are the entries of auto_approve_programs that Suggest knows: programs that print what they read, and those
// that build and test. Everything else is suggested by its very bytes, if at all.
const grantable = `basename,cat,cd,cmp,comm,cut,diff,dirname,du,echo,false,file,gofmt,grep,head,jq,ls,md5sum,nl,printf,pwd,readlink,realpath,rev,rg,sha256sum,stat,tail,test,tr,true,uname,wc,which,
cargo build,cargo check,cargo clippy,cargo test,git blame,git describe,git diff,git log,git ls-files,git ls-tree,git rev-parse,git show,git status,go build,go doc,go list,go test,go version,go vet`

// runners run what their arguments or their input say, also where Analyse understands it.
const runners = " sh bash dash ash zsh ksh mksh fish busybox env xargs gxargs eval exec source . su sudo sudo-rs doas pkexec npx bunx pnpx uvx pipx flock watch chroot unshare strace ltrace parallel script ssh "

// Suggest returns the entries that would have granted what agents asked for at least twice, or a person approved. All of
// them added to s are a valid policy, by which nothing is automatic that a person refused: Suggest rather leaves out an
// entry. It suggests nothing that deny, require_human, a place of secrets or a protected place is about, and no program
// that runs whatever it is told. The suggestions are in the order of their lists, the most asked first.
func Suggest(s Settings, past []Past) ([]Suggestion, []LeftOut) {
	t := suggester{before: s, after: s, never: map[[2]string]bool{}}
	for _, p := range past {
		if p.Refused > 0 {
			t.never[[2]string{string(p.Request.Kind), p.words()}] = true
		}
	}
	by := judgeBy(s)
	for _, p := range past {
		switch v := by(p); {
		case t.never[[2]string{string(p.Request.Kind), p.words()}]:
			t.leave(p, "a person refused it")
		case v.Decision == action.Auto: // by now it is granted
		case v.Rule != RuleUnknown:
			t.leave(p, v.Reason)
		case !p.Whole:
			t.leave(p, "the journal does not have all of it, because it is long or holds a secret")
		case !p.Request.Exact:
			t.leave(p, "the agent shows only a title, and not what will run")
		default:
			t.open = append(t.open, p)
		}
	}
	t.programs()
	t.others(past)
	return t.result(), t.left
}

// suggester is one call of Suggest.
type suggester struct {
	before, after Settings           // as they are, and with what is suggested
	never         map[[2]string]bool // what a person refused, by kind and words
	open          []Past             // what could be granted
	left          []LeftOut
}

// judgeBy returns Judge by the settings, with the recovery policy of each request.
func judgeBy(s Settings) func(Past) Verdict {
	known := map[*recovery.Policy]*Policy{}
	return func(p Past) Verdict {
		policy, ok := known[p.Of]
		if !ok {
			policy, _ = Compile(s, p.Of) // nil with problems: then everything is a question
			known[p.Of] = policy
		}
		return Judge(policy, p.Request, p.Facts)
	}
}

func (t *suggester) leave(p Past, why string) {
	i := slices.IndexFunc(t.left, func(l LeftOut) bool { return l.What == p.words() && l.Why == why })
	if i < 0 {
		i = len(t.left)
		t.left = append(t.left, LeftOut{What: p.words(), Why: why})
	}
	t.left[i].Asked += p.Asked
	t.left[i].Refused += p.Refused
}

// programs adds the entries of auto_approve_programs.
func (t *suggester) programs() {
	needs := map[string][]Past{}
	t.open = slices.DeleteFunc(t.open, func(p Past) bool {
		if p.Request.Kind != Command {
			return false
		}
		entries, why := t.entries(p)
		if why != "" {
			t.leave(p, why)
			return true
		}
		for _, e := range entries {
			needs[e] = append(needs[e], p)
		}
		return false
	})
	for e, list := range needs {
		if often(list) {
			t.after.Programs = append(slices.Clip(t.after.Programs), e)
		}
	}
	slices.Sort(t.after.Programs[len(t.before.Programs):])
}

// often reports whether requests were made often enough to be granted.
func often(list []Past) bool {
	asked, approved := 0, 0
	for _, p := range list {
		asked, approved = asked+p.Asked, approved+p.Approved
	}
	return asked >= 2 || approved > 0
}

// entries returns the entries of grantable that grant a command. none without why means that its bytes could be listed.
func (t *suggester) entries(p Past) (list []string, why string) {
	a := recovery.Analyse(p.Request.Command)
	switch {
	case len(a.Opaque) > 0:
		return nil, a.Opaque[0].Why
	case a.Privileged != "":
		return nil, "it runs with other rights"
	}
	for _, o := range a.Own {
		granted := slices.ContainsFunc(a.Parts, func(part recovery.Part) bool {
			return part.Text == o.Part && granted(t.before.Programs, part.Words) != ""
		})
		if p.Approved == 0 && !granted {
			return nil, o.Why + ", which agents can write, and nobody has approved it"
		}
	}
	all := true
	for _, part := range a.Parts {
		name := path.Base(part.Words[0])
		if strings.Contains(runners, " "+name+" ") || name == "find" && slices.ContainsFunc(part.Words, func(w string) bool { return strings.HasPrefix(w, "-exec") || strings.HasPrefix(w, "-ok") }) {
			return nil, quoted(name) + " runs whatever it is told"
		}
		if strings.Contains(part.Words[0], "/") && p.Approved == 0 {
			return nil, "it runs a program by its path, which agents may have written, and nobody has approved it"
		}
		j := judge{Policy: &Policy{Settings: t.before}, Request: p.Request, facts: p.Facts}
		for _, w := range part.Words {
			if strings.ContainsAny(w, "/.~") && (j.protected(j.at(w)) || j.secret(j.at(w))) {
				return nil, "it names " + quoted(w) + ", a place that is not for agents"
			}
		}
		if granted(t.before.Programs, part.Words) != "" {
			continue
		}
		e := granted(strings.FieldsFunc(grantable, func(r rune) bool { return r == ',' || r == '\n' }), part.Words)
		if all = all && e != ""; all {
			list = append(list, e)
		}
	}
	if !all {
		list = nil
	}
	slices.Sort(list)
	return slices.Compact(list), t.bare(p, a)
}

// granted returns the entry that the words begin with, or "".
func granted(entries, words []string) string {
	for _, e := range entries {
		if first := strings.Fields(e); len(first) > 0 && len(words) >= len(first) && slices.Equal(words[:len(first)], first) {
			return e
		}
	}
	return ""
}

// bare returns "" if a command has the form that auto_approve_programs wants, and otherwise why it has not.
func (t *suggester) bare(p Past, a *recovery.Analysis) string {
	j := judge{Policy: &Policy{Settings: t.before}, Request: p.Request, facts: p.Facts}
	for _, part := range a.Parts {
		j.programs = append(j.programs, part.Words[:1])
	}
	return j.grants(a)
}

// others drops the entries for programs by which something would run that a person refused, and adds those of the other
// lists.
func (t *suggester) others(past []Past) {
	for _, p := range past {
		for p.Refused > 0 && judgeBy(t.before)(p).Decision != action.Auto && judgeBy(t.after)(p).Decision == action.Auto {
			last := len(t.after.Programs)
			for _, part := range recovery.Analyse(p.Request.Command).Parts {
				e := granted(t.after.Programs[len(t.before.Programs):], part.Words)
				t.after.Programs = slices.DeleteFunc(slices.Clone(t.after.Programs), func(x string) bool { return e != "" && x == e && !slices.Contains(t.before.Programs, x) })
				if e != "" {
					t.left = append(t.left, LeftOut{What: e, Why: fmt.Sprintf("as a program it would also grant %s, which a person refused", quoted(p.words()))})
				}
			}
			if len(t.after.Programs) == last {
				break
			}
		}
	}
	by := judgeBy(t.after)
	rest := map[[2]string][]Past{}
	var order [][2]string
	for _, p := range t.open {
		if by(p).Decision == action.Auto {
			continue
		}
		list, entry, why := wish(p.Request)
		if why != "" {
			t.leave(p, why)
			continue
		}
		key := [2]string{list, entry}
		if rest[key] == nil {
			order = append(order, key)
		}
		rest[key] = append(rest[key], p)
	}
	for _, key := range order {
		with := t.after
		list := map[string]*[]string{listCommands: &with.AutoApprove, listHosts: &with.Hosts, listTools: &with.Tools}[key[0]]
		*list = append(slices.Clip(*list), key[1])
		by, why := judgeBy(with), ""
		if !often(rest[key]) {
			why = "it was asked only once, and nobody has approved it"
		}
		for _, p := range rest[key] {
			if v := by(p); why == "" && v.Decision != action.Auto {
				why = v.Reason
			}
		}
		for _, p := range past {
			if why == "" && p.Refused > 0 && by(p).Decision == action.Auto && judgeBy(t.before)(p).Decision != action.Auto {
				why = fmt.Sprintf("it would also grant %s, which a person refused", quoted(p.words()))
			}
		}
		if why == "" {
			t.after = with
			continue
		}
		for _, p := range rest[key] {
			t.leave(p, why)
		}
	}
}

// wish returns the entry that would grant a request, in a list other than that of programs.
func wish(r Request) (list, entry, why string) {
	if strings.ContainsFunc(r.Command+r.Tool, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return "", "", "it has characters that people do not see, or several lines"
	}
	switch r.Kind {
	case Command:
		return listCommands, r.Command, ""
	case MCP:
		return listTools, r.Tool, ""
	case Fetch:
		host := strings.ToLower(strings.TrimSuffix(r.Host, "."))
		_, err := netip.ParseAddr(host)
		if err == nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") {
			return "", "", "the host is unknown, or of this machine or its network"
		}
		for label := range strings.SplitSeq(host, ".") {
			if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
				return "", "", "it names no host"
			}
		}
		return listHosts, host, ""
	}
	return "", "", "no list grants it"
}

// result returns what was added to the lists.
func (t *suggester) result() (out []Suggestion) {
	before, after := judgeBy(t.before), judgeBy(t.after)
	add := func(list string, entries []string, of func(r Request, entry string) bool) {
		var found []Suggestion
		for _, e := range entries {
			s := Suggestion{List: list, Entry: e}
			for _, p := range t.open {
				if of(p.Request, e) && before(p).Decision != action.Auto && after(p).Decision == action.Auto {
					s.Asked, s.Approved, s.Unanswered = s.Asked+p.Asked, s.Approved+p.Approved, s.Unanswered+p.Unanswered
					s.Example = cmp.Or(s.Example, p.words())
				}
			}
			if s.Asked > 0 {
				found = append(found, s)
			}
		}
		slices.SortStableFunc(found, func(a, b Suggestion) int { return b.Asked - a.Asked })
		out = append(out, found...)
	}
	same := func(r Request, e string) bool {
		_, entry, _ := wish(r)
		return entry == e
	}
	add(listCommands, t.after.AutoApprove[len(t.before.AutoApprove):], func(r Request, e string) bool { return r.Kind == Command && r.Command == e })
	add(listPrograms, t.after.Programs[len(t.before.Programs):], func(r Request, e string) bool {
		return r.Kind == Command && slices.ContainsFunc(recovery.Analyse(r.Command).Parts, func(p recovery.Part) bool { return granted([]string{e}, p.Words) != "" })
	})
	add(listHosts, t.after.Hosts[len(t.before.Hosts):], func(r Request, e string) bool { return r.Kind == Fetch && same(r, e) })
	add(listTools, t.after.Tools[len(t.before.Tools):], func(r Request, e string) bool { return r.Kind == MCP && same(r, e) })
	slices.SortStableFunc(t.left, func(a, b LeftOut) int { return b.Asked - a.Asked })
	return out
}
