package multiscan

import (
	"encoding/binary"
)

const (
	minLiteral = 8  // bytes of a literal that the filter needs: a word
	maxLiteral = 64 // bytes that it takes: the rest is left to the expression
	gram       = 5  // bytes that it looks at in one place
	// stride is how far these places are apart: a word holds a whole gram at one of them wherever it stands.
	stride   = minLiteral - gram + 1
	gramBits = 18
	wordBits = 17
	headBits = 14
	fold64   = 0x2020202020202020
	factor   = 0x9E3779B97F4A7C15
	batch    = 1024 // places that are looked at in one go
)

// filter finds thousands of literals in a text by looking at every stride-th place only. Of each literal one word of
// minLiteral bytes is chosen. The word has stride grams, and wherever it stands, one of them is at a place looked at. A
// bit says whether a gram is one of a word, which few are. There the words that it can belong to are looked at: again a
// bit says whether a word is known. If it is, the literals with that word are compared. Grams and words are compared
// with bit 0x20 of each byte set, which joins upper and lower case.
type filter struct {
	grams   [1 << gramBits]byte
	words   [1 << wordBits / 64]uint64
	heads   [1 << headBits]int32 // by hash of a word: the first entry, from 1
	entries []entry
}

// entry is a literal of a pattern.
type entry struct {
	word    uint64
	text    string // the literal, in lower case
	at      int    // where the word is in it
	pattern int32
	next    int32 // entry with the same hash, from 1; 0: there is none
}

// fold loads a word with letter case joined.
func fold(b []byte) uint64 { return binary.LittleEndian.Uint64(b) | fold64 }

// foldEnd is fold where there may be fewer bytes.
func foldEnd(b []byte) uint64 {
	var w [minLiteral]byte
	copy(w[:], b)
	return fold(w[:])
}

// hashGram is the bit of the gram that a word begins with.
func hashGram(word uint64) uint64 {
	return word * (factor << (64 - 8*gram) & (1<<64 - 1)) >> (64 - gramBits)
}

// hashWord has wordBits bits; the upper headBits of them choose a head.
func hashWord(word uint64) uint64 { return word * factor >> (64 - wordBits) }

// hasGram is 1 if the bit of a gram's hash is set, else 0.
func (f *filter) hasGram(h uint64) uint { return uint(f.grams[h]) }

// add has the filter find a literal of minLiteral to maxLiteral bytes by its word.
func (f *filter) add(pattern int32, text string, at int) {
	w := fold([]byte(text[at : at+minLiteral]))
	for i := range stride {
		f.grams[hashGram(w>>(8*i))] = 1
	}
	h := hashWord(w)
	f.words[h/64] |= 1 << (h % 64)
	head := &f.heads[h>>(wordBits-headBits)]
	f.entries = append(f.entries, entry{w, text, at, pattern, *head})
	*head = int32(len(f.entries))
}

// stands reports whether the literal is at a place of b.
func (e *entry) stands(b []byte, at int) bool {
	if at < 0 || at+len(e.text) > len(b) {
		return false
	}
	for i := range len(e.text) {
		c := b[at+i]
		if c-'A' < 26 {
			c += 'a' - 'A'
		}
		if c != e.text[i] {
			return false
		}
	}
	return true
}

// search runs a filter over a text.
type search struct {
	f     *filter
	text  []byte
	place int // of a byte of the literal that was found
	from  int // the next place to be looked at
	// spots are places of grams that are known; later, those of words that are known, with the offset of the gram in
	// the word in the lower bits. One more is written than there are.
	spots [2 * batch]uint32
	words [stride * 2 * batch]uint32
	n, at uint // how many words there are, and the next
	start int  // of the word at hand
	entry int32
}

// begin begins a text of less than 1 GiB.
func (s *search) begin(text []byte) {
	s.text, s.from, s.n, s.at, s.entry = text, 0, 0, 0, 0
}

// next gives the pattern of the next literal that stands in the text, -1 after the last one. A literal may be found
// more than once.
func (s *search) next() int32 {
	for {
		for s.entry != 0 {
			e := &s.f.entries[s.entry-1]
			s.entry = e.next
			if fold(s.text[s.start:]) == e.word && e.stands(s.text, s.start-e.at) {
				return e.pattern
			}
		}
		if s.at == s.n && !s.look() {
			return -1
		}
		w := s.words[s.at]
		s.at++
		s.place = int(w / stride)
		s.start = s.place - int(w%stride)
		s.entry = s.f.heads[hashWord(fold(s.text[s.start:]))>>(wordBits-headBits)]
	}
}

// known notes the places of text, which is at from, that have known grams, and counts them. Nothing in the loop depends
// on what the text is, so that no branch of it is foretold wrongly. Not inlined, its variables are in registers.
//
//go:noinline
func (f *filter) known(text []byte, from uint32, spots *[2 * batch]uint32) (n uint) {
	for ; len(text) >= 3*stride+minLiteral; text = text[4*stride:] {
		spots[n%(2*batch)] = from
		n += f.hasGram(hashGram(fold(text)))
		spots[n%(2*batch)] = from + stride
		n += f.hasGram(hashGram(fold(text[stride:])))
		spots[n%(2*batch)] = from + 2*stride
		n += f.hasGram(hashGram(fold(text[2*stride:])))
		spots[n%(2*batch)] = from + 3*stride
		n += f.hasGram(hashGram(fold(text[3*stride:])))
		from += 4 * stride
	}
	for ; len(text) >= minLiteral; text = text[stride:] {
		spots[n%(2*batch)] = from
		n += f.hasGram(hashGram(fold(text)))
		from += stride
	}
	return n
}

// look fills words, and reports whether there are any.
func (s *search) look() bool {
	f, text, i := s.f, s.text, s.from
	for s.n = 0; s.n == 0 && i+gram <= len(text); {
		n := f.known(text[i:min(len(text), i+batch*stride+minLiteral-stride)], uint32(i), &s.spots)
		i += max(0, min(len(text)-i-minLiteral+stride, batch*stride)) / stride * stride
		for ; i+gram <= len(text) && i > len(text)-minLiteral; i += stride {
			s.spots[n%(2*batch)] = uint32(i)
			n += f.hasGram(hashGram(foldEnd(text[i:])))
		}
		s.n = s.belong(n)
	}
	s.from, s.at = i, 0
	return s.n > 0
}

// belong notes which known words the first n spots are in, and counts them.
func (s *search) belong(n uint) (m uint) {
	f, text := s.f, s.text
	for _, place := range s.spots[:n] {
		for k := range uint32(stride) {
			if p := int(place) - int(k); p >= 0 && p+minLiteral <= len(text) {
				s.words[m] = place*stride + k
				m += f.hasWord(fold(text[p:]))
			}
		}
	}
	return m
}

// hasWord is 1 if the bit of a word's hash is set, else 0.
func (f *filter) hasWord(word uint64) uint {
	h := hashWord(word)
	return uint(f.words[h/64] >> (h % 64) & 1)
}
