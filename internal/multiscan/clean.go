package multiscan

// cleaner removes terminal control sequences from a stream that comes in
// pieces of any size. Its state is all that it keeps between pieces.
type cleaner struct {
	state escape
	n     int // bytes of the control string so far
}

// escape says where inside a control sequence the cleaner is.
type escape uint8

const (
	ground escape = iota
	afterEsc
	intermediate // ESC and bytes 0x20-0x2f: a final byte follows
	csi
	controlString // OSC, DCS, SOS, PM, APC
	stringEsc     // an ESC inside a control string
)

const (
	esc       = 0x1b
	bel       = 0x07
	backspace = '\b'
	// maxControlString bounds how much a control string without an end can
	// hide; what follows is text again.
	maxControlString = 4096
)

// next returns the plain bytes that p begins with, what ends them ('\r',
// '\b', or 0 for neither) and what of p is left. Sequences before and after the
// plain bytes are swallowed. p holds no '\n'; the caller calls reset there.
func (c *cleaner) next(p []byte) (run []byte, ctl byte, rest []byte) {
	i := 0
	for c.state != ground && i < len(p) {
		if c.swallow(p[i]) {
			i++
		}
	}
	p = p[i:]
	for i, b := range p {
		if b > esc {
			continue
		}
		switch b {
		case '\r', backspace:
			return p[:i], b, p[i+1:]
		case esc:
			c.state = afterEsc
			return p[:i], 0, p[i+1:]
		}
	}
	return p, 0, nil
}

// reset ends whatever sequence is open: a new line begins.
func (c *cleaner) reset() { *c = cleaner{} }

// swallow takes one byte of a control sequence. It reports false if b does
// not belong to it and is to be looked at again.
func (c *cleaner) swallow(b byte) bool {
	switch c.state {
	case afterEsc:
		switch {
		case b == '[':
			c.state = csi
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state, c.n = controlString, 0
		case b >= 0x20 && b <= 0x2f:
			c.state = intermediate
		case b == esc:
		case b >= 0x30 && b <= 0x7e:
			c.state = ground
		default:
			c.state = ground
			return false
		}
	case intermediate:
		switch {
		case b >= 0x20 && b <= 0x2f:
		case b >= 0x30 && b <= 0x7e:
			c.state = ground
		default:
			c.state = ground
			return false
		}
	case csi:
		switch {
		case b >= 0x20 && b <= 0x3f:
		case b >= 0x40 && b <= 0x7e:
			c.state = ground
		default:
			c.state = ground
			return false
		}
	case controlString:
		c.n++
		switch {
		case b == bel:
			c.state = ground
		case b == esc:
			c.state = stringEsc
		case b == '\r' || c.n > maxControlString:
			c.state = ground
			return false
		}
	case stringEsc:
		c.state = ground
		if b != '\\' {
			c.state = afterEsc
			return false
		}
	}
	return true
}
