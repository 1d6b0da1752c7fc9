package render

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/verify"
)

// Classification is the diagnosis of one failed command on one system. superloop classify and superloop fix print it as
// text and as JSON.
type Classification struct {
	Command string `json:"command"`
	Dir     string `json:"dir"`
	Exit    Exit   `json:"exit"`

	Category    string  `json:"category"`
	Label       string  `json:"category_label"`
	Persistence string  `json:"persistence"`
	Infra       bool    `json:"infra"` // the environment caused the failure
	Code        bool    `json:"code"`  // only a change of the code can fix the failure
	Weak        bool    `json:"weak"`  // the code may have caused the failure as well
	Handler     string  `json:"handler"`
	About       string  `json:"handler_label,omitempty"`
	Description string  `json:"handler_description,omitempty"`
	Layer       string  `json:"layer"`
	Family      string  `json:"family,omitempty"`
	Source      string  `json:"handler_source,omitempty"` // one of embedded, user, repository
	Confidence  float64 `json:"confidence"`
	Signature   string  `json:"signature"`
	Why         string  `json:"why"`
	Incomplete  bool    `json:"incomplete,omitempty"`

	Evidence []classify.Evidence `json:"evidence"`
	Findings []classify.Finding  `json:"findings"`
	Also     []Also              `json:"also"`

	System  remedy.Profile `json:"system"`
	Options []OptionView   `json:"options"`        // the best first, the last one asks an operator
	More    []OptionView   `json:"more,omitempty"` // the options that come after these, and those that are impossible
	// Fallback holds the ids of Options in the order in which they follow the first one.
	Fallback []string   `json:"fallbackChain"`
	Hints    []string   `json:"hints"`
	Notes    []string   `json:"notes"`
	Policy   PolicyFrom `json:"policy"`
	// Gate is the decision of remedy.Gate: what superloop would do about the failure, with the option of id GateOption.
	Gate       string `json:"gate"`
	GateOption string `json:"gate_option,omitempty"`
	TookUS     int64  `json:"took_us"`
}

// Exit says how a command ended.
type Exit struct {
	Code       int    `json:"code"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out,omitempty"`
	OOM        bool   `json:"oom,omitempty"`
	NotStarted bool   `json:"not_started,omitempty"`
}

// Also is another handler that recognised the failure.
type Also struct {
	Handler string `json:"handler"`
	Layer   string `json:"layer"`
	Vetoed  bool   `json:"vetoed,omitempty"`
	Text    string `json:"text,omitempty"`
}

// PolicyFrom says where the policy came from that judged the options.
type PolicyFrom struct {
	Source  string `json:"source"` // config or default
	File    string `json:"file"`
	Loop    string `json:"loop,omitempty"`
	Enabled bool   `json:"enabled"`
	Held    int    `json:"held,omitempty"` // number of changes that do not count because no operator has trusted them yet
}

// OptionView is one option to fix a failure, with the verdict of the policy. It does not embed action.Draft, because
// its JSON has the confidence as a number and shows an empty command.
type OptionView struct {
	ID           string           `json:"id"`
	Key          string           `json:"key"`
	Label        string           `json:"label"`
	Description  string           `json:"description,omitempty"`
	Strategy     string           `json:"strategy"`
	Executor     string           `json:"executor"`
	Risk         string           `json:"risk"`
	Confidence   float64          `json:"confidence"`
	Recommended  bool             `json:"recommended"`
	Availability string           `json:"availability"`
	Reason       string           `json:"reason,omitempty"` // why the option is locked or impossible
	Unlock       []remedy.Preview `json:"unlock,omitempty"`
	Command      string           `json:"command"`
	WorkingDir   string           `json:"working_dir,omitempty"`
	TimeoutMS    int64            `json:"timeout_ms,omitempty"`
	WaitsMS      []int64          `json:"waits_ms,omitempty"`
	Instructions string           `json:"instructions,omitempty"`
	Expected     string           `json:"expected_outcome,omitempty"`
	Demoted      string           `json:"demoted,omitempty"`
	// Priority counts from 1, the best first. Estimate says in how many iterations of a loop the option helps.
	Priority int        `json:"priority"`
	Estimate int        `json:"estimatedIterations"`
	Steps    []StepView `json:"steps"`
	From     string     `json:"from"`
	// ByItself reports whether superloop may carry the option out without an operator, if the policy lets the command
	// run. Withheld says why not.
	ByItself bool   `json:"by_itself"`
	Withheld string `json:"withheld,omitempty"`
	// Experience says how the option did in this repository before.
	Experience string `json:"experience,omitempty"`
	Verdict    string `json:"verdict,omitempty"` // the decision of the policy; "" for an option without a command
	Rule       string `json:"rule,omitempty"`
	Because    string `json:"reason_of_policy,omitempty"`
}

// NewClassification makes a Classification of the failure, the remediation plan for it, and the policy.
func NewClassification(cat *catalog.Catalog, f classify.Failure, plan *remedy.Plan, system remedy.Profile, policy *recovery.Policy, from PolicyFrom) Classification {
	c := Classification{
		Command: f.Command, Dir: f.Dir,
		Exit:     Exit{Code: f.Exit.Code, Signal: f.Exit.Signal, TimedOut: f.Exit.TimedOut, OOM: f.Exit.OOM, NotStarted: f.Exit.NotStarted},
		Category: f.Category, Persistence: f.Persistence, Infra: f.Infra, Code: f.Code, Weak: f.Weak, Handler: f.Handler, Layer: string(f.Layer),
		Confidence: f.Confidence, Signature: f.Signature, Why: f.Why, Incomplete: f.Incomplete,
		Evidence: append([]classify.Evidence{}, f.Evidence...), Findings: []classify.Finding{}, Also: []Also{},
		System: system, Options: Options(plan, policy), Hints: append([]string{}, plan.Hints...), Notes: append([]string{}, plan.Notes...),
		Policy: from, TookUS: f.Took.Microseconds(),
	}
	c.System.Tools, c.System.Path = nil, nil // the lists are too long to print
	if k, ok := cat.Category(f.Category); ok {
		c.Label = k.Label
	}
	if h, ok := cat.Handler(f.Handler); ok {
		c.About, c.Description, c.Family, c.Source = h.Label, h.Description, h.Family, h.Origin.Source
	}
	for _, name := range slices.Sorted(maps.Keys(f.Findings)) {
		c.Findings = append(c.Findings, f.Findings[name])
	}
	for i, m := range f.Matches {
		if i > 0 && m.Handler != nil {
			c.Also = append(c.Also, Also{Handler: m.Handler.ID, Layer: string(m.Handler.Layer), Vetoed: m.Vetoed, Text: m.Text})
		}
	}
	gate, option := remedy.Gate(plan, policy)
	c.Gate = gate
	if option != nil {
		c.GateOption = option.ID
	}
	c.fold()
	return c
}

// Options returns the options of a plan with the policy's verdict on each.
func Options(plan *remedy.Plan, policy *recovery.Policy) []OptionView {
	out := []OptionView{}
	for i := range plan.Options {
		o := plan.Options[i]
		v := OptionView{Priority: i + 1, Estimate: o.Estimate, Steps: append([]StepView{}, stepsOf(&o)...), ID: o.ID, Key: o.Key, Label: o.Label, Description: o.Description, Strategy: string(o.Strategy), Executor: string(o.Executor),
			Risk: string(o.Risk), Confidence: o.Confidence, Experience: o.Experience, Recommended: o.Recommended, Availability: string(o.Availability), Unlock: o.UnlockPreview,
			Command: o.Command, WorkingDir: o.WorkingDir, TimeoutMS: o.Timeout.Milliseconds(), Instructions: o.Instructions, Expected: o.Expect,
			Demoted: o.Demoted, From: strings.TrimSuffix(o.From.Kind+":"+o.From.ID, ":")}
		for _, w := range o.Tries {
			v.WaitsMS = append(v.WaitsMS, w.Milliseconds())
		}
		switch o.Availability {
		case remedy.Locked:
			v.Reason = o.LockReason
		case remedy.Impossible:
			v.Reason = o.ImpossibleReason
		}
		v.ByItself, v.Withheld = remedy.ByItself(o, plan.Failure)
		if o.Command != "" && !o.Plain() {
			// As in remedy.Gate, facts that only a run knows are missing here. The policy then takes the stricter
			// verdict.
			d := recovery.Decide(policy, recovery.Command{Text: o.Command, WorkingDir: o.WorkingDir}, recovery.Facts{})
			v.Verdict, v.Rule, v.Because = string(d.Decision), d.Rule, d.Reason
		}
		out = append(out, v)
	}
	return out
}

// inert returns foreign text in one line of at most 300 characters that cannot control a terminal.
func inert(s string) string { return Cut(text.Display(s), 300) }

// reportsText holds the templates of the reports that classify, fix and verify print.
//
//go:embed reports.tmpl
var reportsText string

// numberedOption is an option with its number in the list, from 1.
type numberedOption struct {
	OptionView
	N int
}

var reports = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("reports").Funcs(template.FuncMap{
		"inert": inert, "clean": Clean, "show": text.Display, "word": remedy.Word, "waits": waits, "chosen": chosen, "output": output,
		"spaced":   func(name string) string { return strings.ReplaceAll(name, "_", " ") },
		"yaml":     func(s string) string { return "'" + strings.ReplaceAll(inert(s), "'", "''") + "'" },
		"about":    func(c Classification) string { return strings.TrimSuffix(c.About+": "+c.Description, ": ") },
		"numbered": func(i int, o OptionView) numberedOption { return numberedOption{o, i + 1} },
		"row": func(i int, name string) string {
			if i > 0 {
				name = ""
			}
			return fmt.Sprintf("%-11s ", name)
		},
		"category": func(c Classification) string {
			name := strings.ReplaceAll(c.Category, "_", " ")
			if c.Label != "" && !strings.EqualFold(c.Label, name) {
				name += ": " + c.Label
			}
			return name
		},
		"known": func(all []classify.Finding) []classify.Finding {
			return slices.DeleteFunc(slices.Clone(all), func(f classify.Finding) bool { return f.Holds == classify.Unknown && f.Value == "" })
		},
		"bestFirst": func(all []OptionView) []OptionView { // impossible options come last: the report only explains them
			impossible := func(o OptionView) bool { return o.Availability == string(remedy.Impossible) }
			last := slices.DeleteFunc(slices.Clone(all), func(o OptionView) bool { return !impossible(o) })
			return append(slices.DeleteFunc(slices.Clone(all), impossible), last...)
		},
		"system": func(p remedy.Profile) string {
			return Clean(cmp.Or(p.Name, strings.TrimSpace(p.Distro+" "+p.Version), p.OS))
		},
	}).Parse(reportsText))
})

func report(w io.Writer, name string, data any) {
	if err := reports().ExecuteTemplate(w, name, data); err != nil {
		fmt.Fprintln(w, err)
	}
}

// Text writes a classification for an operator. Output of tools in it cannot control the terminal.
func (c Classification) Text(w io.Writer) { report(w, "classification", c) }

// CheckRun is one command of a verification and its outcome.
type CheckRun struct {
	Command string
	Exit    Exit
	Output  string
}

// Verification writes the result of a verification for an operator. Output of the tool in it cannot control the
// terminal.
func Verification(w io.Writer, tool, label string, out verify.Outcome, runs []CheckRun) {
	name := Clean(tool)
	if label != "" {
		name += " (" + Clean(label) + ")"
	}
	report(w, "verification", map[string]any{"Name": name, "Out": out, "Runs": runs, "Repaired": out.Repair != nil && out.Repair.Succeeded})
}

// output returns the first six lines that a tool has printed, and "..." if there are more.
func output(printed string) (out []string) {
	for line := range strings.Lines(printed) {
		if len(out) == 6 {
			return append(out, "...")
		}
		out = append(out, inert(strings.TrimRight(line, "\r\n")))
	}
	return out
}

func waits(all []int64) string {
	var out []string
	for _, ms := range all {
		if ms > 0 {
			out = append(out, "after "+Duration(time.Duration(ms)*time.Millisecond))
		} else {
			out = append(out, "at once")
		}
	}
	return strings.Join(out, ", ")
}

// chosen returns the command of the option that superloop would carry out, or its label if it has no command.
func chosen(c Classification) string {
	for _, o := range c.Options {
		switch {
		case o.ID == c.GateOption && o.Command != "":
			return inert(o.Command)
		case o.ID == c.GateOption:
			return o.Label
		}
	}
	return ""
}

// String says in a few words how a command ended.
func (e Exit) String() string {
	switch {
	case e.TimedOut:
		return "ended by its time limit"
	case e.OOM:
		return "ended by the kernel, for memory"
	case e.NotStarted:
		return "could not be started"
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// String says which policy judged.
func (p PolicyFrom) String() string {
	if n := p.Held; n > 0 {
		p.Held = 0
		return fmt.Sprintf("%s, without what nobody has trusted yet (%d; superloop config diff)", p.String(), n)
	}
	switch {
	case p.Source == "default":
		return "the default one: " + p.File + " is not there, so nothing is listed"
	case !p.Enabled:
		return p.File + ", whose recovery section is missing or not enabled: an operator is asked about everything"
	case p.Loop != "":
		return p.File + ", of loop " + Clean(p.Loop)
	}
	return p.File
}
