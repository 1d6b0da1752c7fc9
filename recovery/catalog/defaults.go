package catalog

import "slices"

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
	if r.CLI == "" {
		r.CLI = r.ID
	}
	if r.Label == "" {
		r.Label = r.ID
	}
	if r.Risk == "" {
		r.Risk = RiskLow
	}
	if r.Verify.Command == "" {
		r.Verify.Command = r.CLI + " --version"
	}
	if r.Verify.Origin == "" {
		r.Verify.Origin = VerifyGenerated
	}
	if r.Verify.Mode == "" {
		r.Verify.Mode = ModeVersion
		if r.Verify.Pattern != "" {
			r.Verify.Mode = ModeOutput
		}
	}
}

func (h *Handler) fillDefaults() {
	if h.Label == "" {
		h.Label = h.ID
	}
	h.Options = slices.Clone(h.Options)
	for i := range h.Options {
		h.Options[i].fillDefaults()
	}
}

func (o *Option) fillDefaults() {
	if o.Executor == "" {
		o.Executor = ByWrapper
		if o.Strategy == Manual {
			o.Executor = ByHuman
		}
	}
	if o.Risk == "" {
		o.Risk = RiskLow
	}
}

// WithVerify is a copy of the recipe with another verify section. The recipe
// itself, which belongs to a catalog, stays as it is.
func (r *Recipe) WithVerify(v Verify) *Recipe {
	c := *r
	c.Verify = v
	return &c
}
