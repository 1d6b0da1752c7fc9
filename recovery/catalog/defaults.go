package catalog

import (
	"cmp"
	"slices"
)

// The origins of a verify section.
const (
	VerifyDefault   = "default"   // of an embedded recipe
	VerifyGenerated = "generated" // nobody wrote one: the program with --version
	VerifyUser      = "user"      // of an overlay: never repaired
)

// The modes of a verify section.
const (
	ModeVersion = "version" // the exit code decides
	ModeOutput  = "output"  // and the output must match the pattern
)

func (r *Recipe) fillDefaults() {
	r.CLI, r.Label, r.Risk = cmp.Or(r.CLI, r.ID), cmp.Or(r.Label, r.ID), cmp.Or(r.Risk, RiskLow)
	mode := ModeVersion
	if r.Verify.Pattern != "" {
		mode = ModeOutput
	}
	v := &r.Verify
	v.Command, v.Origin, v.Mode = cmp.Or(v.Command, r.CLI+" --version"), cmp.Or(v.Origin, VerifyGenerated), cmp.Or(v.Mode, mode)
}

func (h *Handler) fillDefaults() {
	h.Label, h.Options = cmp.Or(h.Label, h.ID), slices.Clone(h.Options)
	for i := range h.Options {
		h.Options[i].fillDefaults()
	}
}

func (o *Option) fillDefaults() {
	executor := ByWrapper
	if o.Strategy == Manual {
		executor = ByHuman
	}
	o.Executor, o.Risk = cmp.Or(o.Executor, executor), cmp.Or(o.Risk, RiskLow)
}
