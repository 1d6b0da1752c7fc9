package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
)

// This file is about judging again what was judged before: by a policy and by facts that a journal has kept.

// canonical returns the settings as canonical JSON, and its SHA-256 in hex. Canonical JSON has every default written out,
// sorted keys, no white space, and no avoidable escapes.
func (s Settings) canonical() (data []byte, digest string, err error) {
	first, err := json.Marshal(s)
	if err != nil {
		return nil, "", fmt.Errorf("writing the policy: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(first))
	dec.UseNumber()
	var plain any
	if err := text.Reason(dec.Decode(&plain)); err != nil {
		return nil, "", fmt.Errorf("reading the policy back: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(plain); err != nil { // Encode sorts the keys of a map
		return nil, "", fmt.Errorf("writing the policy: %w", err)
	}
	data = bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	return data, fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// JSON returns the policy as canonical JSON. Digest is the SHA-256 of these bytes.
func (p *Policy) JSON() []byte { return slices.Clone(p.canonical) }

// Kept makes a policy of what JSON has returned. It fails if data has another digest.
func Kept(digest string, data []byte) (*Policy, error) {
	if sum := fmt.Sprintf("%x", sha256.Sum256(data)); sum != digest {
		return nil, fmt.Errorf("it is not the policy %.12s, its digest is %.12s", digest, sum)
	}
	s := Defaults()
	if err := text.Decode(data, &s); err != nil {
		return nil, fmt.Errorf("reading the policy %.12s: %w", digest, err)
	}
	p, problems := Compile(s)
	switch {
	case len(problems) > 0:
		return nil, fmt.Errorf("reading the policy %.12s: %s: %s", digest, problems[0].Pointer, problems[0].Message)
	case p.Digest != digest:
		return nil, fmt.Errorf("reading the policy %.12s: it has settings that this superloop does not know", digest)
	}
	return p, nil
}

// FactsFor returns the facts with which a policy judges again what a journal has kept. A fact that is not known, and that
// the policy asks for, is the one that makes it ask an operator.
func (p *Policy) FactsFor(kept action.Facts) Facts {
	var f Facts
	if p.Settings.Guard != GuardOff {
		f.Changed = "nobody has looked at what it reads"
	}
	if kept.Confined != nil {
		f.Confined = *kept.Confined
	}
	if kept.Loose != nil {
		f.LooseOK = *kept.Loose
	}
	if kept.Changed != nil && p.Settings.Guard != GuardOff {
		f.Changed = *kept.Changed
	}
	return f
}
