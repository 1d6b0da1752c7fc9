package main

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// manText holds the sections of superloop(1) that do not come from verbs.txt. "== TITLE" begins a section; the rest is
// written like a description in verbs.txt, and a line "TERM<tab>TEXT" is an entry of a list.
//
//go:embed man.txt
var manText string

// roff is a manual page that is being written, in the macros of man(7).
type roff struct{ strings.Builder }

var roffText = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// escaped returns text as it stands in a line of its own or behind a macro.
func escaped(text string) string {
	text = roffText.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func (r *roff) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// head begins the page of a verb, or of the program.
func (r *roff) head(name, usage string) {
	b := thisBuild()
	day, _, _ := strings.Cut(b.Date, "T")
	r.line(`.TH %q 1 %q "superloop %s" "superloop"`, strings.ToUpper(escaped(name)), day, escaped(b.Version))
	r.line(".nh\n.ad l") // names of files and flags are not to be divided
	r.line(".SH NAME\n%s \\- %s", escaped(name), escaped(usage))
}

// prose writes paragraphs, examples (indented lines) and lists (lines with a tab) of a description.
func (r *roff) prose(text string) {
	for i, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(part, "\n")
		switch {
		case strings.HasPrefix(part, "   "):
			r.line(".PP\n.RS 4\n.nf")
			for _, line := range lines {
				r.line("%s", escaped(strings.TrimPrefix(line, "   ")))
			}
			r.line(".fi\n.RE")
		case strings.Contains(part, "\t"):
			for _, line := range lines {
				term, text, _ := strings.Cut(line, "\t")
				r.line(".TP\n.B %s\n%s", escaped(term), escaped(text))
			}
		default:
			if i > 0 {
				r.line(".PP")
			}
			for _, line := range lines {
				r.line("%s", escaped(line))
			}
		}
	}
}

// placeholder is what a usage in verbs.txt calls the value of its flag; aside is one that stands there for its name only.
var (
	placeholder = regexp.MustCompile("`([^`]+)`")
	aside       = regexp.MustCompile(" \\(`[^`]+`(?:; |\\))")
)

func (r *roff) flags(flags []cli.Flag) {
	for _, f := range flags {
		flag, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		var names []string
		for _, name := range f.Names() {
			names = append(names, `\fB`+escaped(strings.Repeat("-", min(2, len(name)))+name)+`\fR`)
		}
		usage, value := flag.GetUsage(), ""
		if flag.TakesValue() {
			value = "VALUE"
			if found := placeholder.FindStringSubmatch(usage); found != nil {
				value = found[1]
			}
			value = ` \fI` + escaped(value) + `\fR`
			if def := strings.Trim(flag.GetDefaultText(), `"`); flag.GetValue() != "" && def != "" && !strings.Contains(usage, "default: ") {
				usage += " (default: " + def + ")"
			}
		}
		usage = aside.ReplaceAllStringFunc(usage, func(found string) string {
			if strings.HasSuffix(found, "; ") {
				return " ("
			}
			return ""
		})
		usage = escaped(placeholder.ReplaceAllString(usage, "\x01$1\x02"))
		usage = strings.NewReplacer("\x01", `\fI`, "\x02", `\fR`).Replace(usage)
		r.line(".TP\n%s%s\n%s", strings.Join(names, ", "), value, usage)
	}
}

// synopsis says how a verb is typed. name is that of the verb with the verb above it.
func (r *roff) synopsis(name string, verb *cli.Command) {
	s := ".B superloop " + escaped(name)
	if len(verb.Flags) > 0 {
		s += "\n.RI [ flags ]"
	}
	if verb.ArgsUsage != "" {
		s += "\n" + escaped(verb.ArgsUsage)
	}
	r.line("%s", s)
}

// described splits a description at its paragraph about exit codes.
func described(text string) (about, exit string) {
	about, exit, _ = strings.Cut("\n\n"+text, "\n\nEXIT STATUS: ")
	return strings.TrimSpace(about), exit
}

// manual prints superloop(1), or the page of a verb.
func (a *app) manual(words []string) error {
	verbs := a.commands()
	page := ""
	if len(words) == 0 {
		page = manOverview(verbs)
	}
	for _, v := range verbs {
		if len(words) == 1 && v.Name == words[0] {
			page = manVerb(v)
		}
	}
	if page == "" {
		return failf(exitUsage, "superloop help", "no page for %q: there is one for superloop and one for each verb", strings.Join(words, " "))
	}
	_, err := io.WriteString(a.stdout, page)
	return err
}

// manOverview is superloop(1).
func manOverview(verbs []*cli.Command) string {
	var r roff
	r.head("superloop", "keep a loop of coding agents alive through the night")
	r.line(".SH SYNOPSIS\n.B superloop\n.I VERB\n.RI [ flags ]\n.br\n.B superloop help\n.RI [ VERB \" | config.\" KEY ]")
	for section := range strings.SplitSeq(strings.TrimPrefix(manText, "== "), "\n== ") {
		title, text, _ := strings.Cut(section, "\n")
		if title == "EXIT STATUS" {
			r.line(".SH VERBS\nThe page of a verb is superloop\\-VERB(1).")
			for _, g := range groups {
				r.line(".SS %s\n.PD 0", strings.ToUpper(g[:1])+g[1:])
				for _, v := range verbs {
					if v.Category == g && !v.Hidden {
						r.line(".TP 19\n.B %s\n%s", escaped(v.Name), escaped(v.Usage))
					}
				}
				r.line(".PD")
			}
		}
		r.line(".SH %s", title)
		r.prose(text)
	}
	return r.String()
}

// manVerb is the page of a verb, with those below it.
func manVerb(verb *cli.Command) string {
	var r roff
	r.head("superloop-"+verb.Name, verb.Usage)
	about, exit := described(verb.Description)
	r.line(".SH SYNOPSIS")
	if verb.Subcommands == nil || len(verb.Flags) > 0 {
		r.synopsis(verb.Name, verb)
	}
	for i, sub := range verb.Subcommands {
		if i > 0 || len(verb.Flags) > 0 {
			r.line(".br")
		}
		r.synopsis(verb.Name+" "+sub.Name, sub)
	}
	r.line(".SH DESCRIPTION")
	r.prose(strings.ToUpper(verb.Usage[:1]) + verb.Usage[1:] + ".\n\n" + about)
	if len(verb.Flags) > 0 {
		r.line(".SH OPTIONS")
		r.flags(verb.Flags)
	}
	if exit != "" {
		r.line(".SH EXIT STATUS")
		r.prose(exit)
	}
	if verb.Subcommands != nil {
		r.line(".SH COMMANDS")
	}
	for _, sub := range verb.Subcommands {
		about, exit := described(sub.Description)
		r.line(".SS superloop %s %s", escaped(verb.Name), escaped(sub.Name))
		r.prose(strings.ToUpper(sub.Usage[:1]) + sub.Usage[1:] + ".\n\n" + about)
		r.flags(sub.Flags)
		if exit != "" {
			r.line(".PP\nExit status: ")
			r.prose(exit)
		}
	}
	r.line(".SH SEE ALSO\n.BR superloop (1)")
	return r.String()
}
