package jsonstream

import "bytes"

// scan reads a chunk. It is one machine: it can be left at any byte, where the
// chunk ends, and is taken up there with the next one. r.state says where. The
// labels are the places between tokens; the jumps between them are there
// because a token is a few bytes and a second dispatch costs as much as it.
func (r *Reader) scan(p []byte) {
	i := 0
	var c byte

resume:
	if i >= len(p) {
		return
	}
	c = p[i]
	if r.state < stString && c <= ' ' {
		switch c {
		case '\n':
			r.endLine(p, i)
		case ' ', '\t', '\r':
		default:
			r.state = stBroken
		}
		i++
		goto resume
	}
	switch r.state {
	case stStart:
		r.top = c
		goto value
	case stValue, stFirst:
		goto value
	case stKey, stFirstKey:
		goto key
	case stColon:
		goto colon
	case stNext:
		goto next
	case stString, stSkipKey:
		i = r.skipString(p, i)
	case stText, stLookKey:
		i = r.readString(p, i)
	case stNumber:
		i = r.readNumber(p, i)
	case stWord:
		i = r.readWord(p, i)
	case stBroken:
		n := bytes.IndexByte(p[i:], '\n')
		if n < 0 {
			return
		}
		i += n
		r.endLine(p, i)
		i++
	default: // stEnd
		r.state = stBroken
	}
	goto resume

value:
	if i >= len(p) {
		return
	}
	c = p[i]
	if r.next != 0 && len(r.shape.nodes[r.next].ends) > 0 && c != ']' && c > ' ' {
		i = r.beginWanted(p, i)
		if r.state == stNext {
			goto next
		}
		goto resume
	}
	switch c {
	case '"':
		i++
		i += skip(p[i:])
		if i >= len(p) || p[i] != '"' {
			r.state = stString
			goto resume
		}
		i++
		r.state = stNext
		if r.depth > 0 {
			goto next
		}
		r.state = stEnd
	case '{', '[':
		i++
		r.open(c == '[')
		switch r.state {
		case stFirst:
			goto value
		case stFirstKey:
			goto key
		}
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		for i++; i < len(p) && p[i]-'0' <= 9; i++ {
		}
		if i < len(p) && (p[i] == ',' || p[i] == '}' || p[i] == ']') && r.depth > 0 {
			r.state = stNext
			goto next
		}
		r.state, r.sub = stNumber, numInt
	case '-', '0':
		r.state, r.sub = stNumber, numBegin
	case 't', 'f', 'n':
		if word := wordOf(c); len(p)-i > len(word) && string(p[i:i+len(word)]) == word && r.depth > 0 {
			i += len(word)
			r.state = stNext
			goto next
		}
		r.state, r.sub, r.word = stWord, 0, wordOf(c)
	case ' ', '\n', '\r', '\t':
	case ']':
		if r.state == stFirst {
			i = r.close(p, i)
		} else {
			r.state = stBroken
		}
	default:
		r.state = stBroken
	}
	goto resume

next:
	if i >= len(p) {
		return
	}
	switch c = p[i]; c {
	case ',':
		i++
		if !r.inArray {
			r.state = stKey
			goto key
		}
		r.state = stValue
		if r.node != 0 {
			r.next = r.shape.nodes[r.node].any
			r.levels[r.depth-1].index++
		}
		goto value
	case '}', ']':
		if r.inArray != (c == ']') {
			r.state = stBroken
			goto resume
		}
		i = r.close(p, i)
		if r.state == stNext {
			goto next
		}
	case ' ', '\n', '\r', '\t':
	default:
		r.state = stBroken
	}
	goto resume

key:
	if i >= len(p) {
		return
	}
	switch c = p[i]; c {
	case '"':
		i++
		if r.node == 0 {
			i += skip(p[i:])
			if i >= len(p) || p[i] != '"' {
				r.state = stSkipKey
				goto resume
			}
			i++
			r.state = stColon
			goto colon
		}
		if n := plain(p[i:]); i+n < len(p) && p[i+n] == '"' && r.lookUp(p[i:i+n], false) {
			i += n + 1
			goto colon
		}
		r.state = stLookKey
		r.key.begin(maxKeyKept)
	case '}':
		if r.state == stFirstKey {
			i = r.close(p, i)
		} else {
			r.state = stBroken
		}
	case ' ', '\n', '\r', '\t':
	default:
		r.state = stBroken
	}
	goto resume

colon:
	if i >= len(p) {
		return
	}
	switch p[i] {
	case ':':
		i++
		r.state = stValue
		goto value
	case ' ', '\n', '\r', '\t':
	default:
		r.state = stBroken
	}
	goto resume
}
