package jsonstream

// Parts of a number, by what was read last.
const (
	numBegin uint8 = iota
	numMinus
	numDot
	numE
	numSign
	// From here on the number may end.
	numZero
	numInt
	numFrac
	numExp
)

// readNumber reads on in a number; it is complete when a byte follows it that
// may follow a value.
func (r *Reader) readNumber(p []byte, i int) int {
	sub := r.sub
	for ; i < len(p); i++ {
		was := sub
		switch c := p[i]; {
		case '1' <= c && c <= '9', c == '0' && was != numBegin && was != numMinus:
			switch was {
			case numBegin, numMinus:
				sub = numInt
			case numDot:
				sub = numFrac
			case numE, numSign:
				sub = numExp
			case numZero:
				r.state = stBroken
				return i
			}
			continue
		case c == '0':
			sub = numZero
			continue
		case c == '-' && was == numBegin:
			sub = numMinus
			continue
		case c == '.' && (was == numZero || was == numInt):
			sub = numDot
			continue
		case (c == 'e' || c == 'E') && (was == numZero || was == numInt || was == numFrac):
			sub = numE
			continue
		case (c == '+' || c == '-') && was == numE:
			sub = numSign
			continue
		}
		if was < numZero {
			r.state = stBroken
		} else {
			r.endScalar(p, i, 'n')
		}
		return i
	}
	r.sub = sub
	return i
}

// readWord reads on in true, false or null.
func (r *Reader) readWord(p []byte, i int) int {
	for ; i < len(p); i++ {
		if int(r.sub) == len(r.word) {
			r.endScalar(p, i, kindOf(r.word[0]))
			return i
		}
		if p[i] != r.word[r.sub] {
			r.state = stBroken
			return i
		}
		r.sub++
	}
	return i
}

// endScalar ends a number or word before p[i]. If that is the line break within
// a container, the value may have been cut too, so it does not count.
func (r *Reader) endScalar(p []byte, i int, kind byte) {
	switch c := p[i]; {
	case c == ',', c == ']', c == '}', c == ' ', c == '\t', c == '\r', c == '\n' && r.depth == 0:
		if r.keep.ends(r.depth) {
			r.finish(p, i, kind)
		}
		r.endValue()
	default:
		r.state = stBroken
	}
}

// kindOf says what begins with c; 0 for nothing.
func kindOf(c byte) byte {
	switch c {
	case '"':
		return 's'
	case '{':
		return 'o'
	case '[':
		return 'a'
	case 't', 'f':
		return 'b'
	case 'n':
		return '0'
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return 'n'
	}
	return 0
}

// wordOf is the word that begins with c, which is one of t, f and n.
func wordOf(c byte) string {
	switch c {
	case 't':
		return "true"
	case 'f':
		return "false"
	}
	return "null"
}
