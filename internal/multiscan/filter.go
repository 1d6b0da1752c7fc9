package multiscan

import "encoding/binary"

const (
	minLiteral = 8  // bytes of a word: the filter takes no shorter literal
	maxLiteral = 64 // bytes of a literal that the filter compares; the expression checks the rest
	gram       = 5  // bytes that the filter hashes at one place
	// stride is the distance between two places that the filter reads. Wherever a word stands, one of its whole grams
	// begins at such a place.
	stride   = minLiteral - gram + 1
	gramBits = 18
	wordBits = 17
	headBits = 14
	fold64   = 0x2020202020202020
	factor   = 0x9E3779B97F4A7C15
	batch    = 2048 // places that known reads in one call
)

// filter finds thousands of literals in a text and reads only every stride-th place of the text. Compile has chosen one
// word of minLiteral bytes in each literal. A word has stride grams, and wherever it stands in a text, one of these
// grams begins at a place that the filter reads. The array grams says whether a gram belongs to any word; few grams do.
// Around such a gram the filter checks the words that may contain it: the bit set words says whether a word belongs to
// any literal. If so, the filter compares the literals with that word. Grams and words are compared with bit 0x20 of
// each byte set, so that upper and lower case are equal.
type filter struct {
	grams   [1 << gramBits]byte
	words   [1 << wordBits / 64]uint64
	heads   [1 << headBits]int32 // by hash of a word: the number of its first entry, from 1; 0: none
	entries []entry
}

// entry is a literal of a pattern.
type entry struct {
	word    uint64
	text    string // the literal, in lower case
	at      int    // the index of the word in text
	pattern int32
	next    int32 // the number of the next entry with the same hash, from 1; 0: none
	other   int32 // the same, but the entries that follow with the same word are left out
}

// fold loads the first minLiteral bytes of b, with upper and lower case made equal.
func fold(b []byte) uint64 { return binary.LittleEndian.Uint64(b) | fold64 }

// foldEnd does the same as fold for a b that may have fewer bytes.
func foldEnd(b []byte) uint64 {
	var w [minLiteral]byte
	copy(w[:], b)
	return fold(w[:])
}

// hashGram returns the hash, of gramBits bits, of the gram at the beginning of a word.
func hashGram(word uint64) uint64 {
	return word * (factor << (64 - 8*gram) & (1<<64 - 1)) >> (64 - gramBits)
}

// hashWord returns the hash of a word, of wordBits bits. Its upper headBits bits are the index into heads.
func hashWord(word uint64) uint64 { return word * factor >> (64 - wordBits) }

// hasGram returns 1 if a gram with this hash belongs to a word, else 0.
func (f *filter) hasGram(h uint64) uint { return uint(f.grams[h]) }

// add adds a literal of minLiteral to maxLiteral bytes to the filter. at is the index of its chosen word.
func (f *filter) add(pattern int32, text string, at int) {
	w := fold([]byte(text[at : at+minLiteral]))
	for i := range stride {
		f.grams[hashGram(w>>(8*i))] = 1
	}
	h := hashWord(w)
	f.words[h/64] |= 1 << (h % 64)
	head := &f.heads[h>>(wordBits-headBits)]
	other := *head
	if other != 0 && f.entries[other-1].word == w {
		other = f.entries[other-1].other
	}
	f.entries = append(f.entries, entry{w, text, at, pattern, *head, other})
	*head = int32(len(f.entries))
}

// stands reports whether b contains the literal at an index, without regard to ASCII case.
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
	place int // the place of a byte of the literal that next has found
	from  int // the next place to read
	// spots holds the places of known grams. words holds the places of known words: the place of the gram times stride,
	// plus the offset of the gram in the word. One element more may be written than is counted.
	spots [2 * batch]uint32
	words [stride * 2 * batch]uint32
	n, at uint // the number of words, and the index of the next one
	start int  // the index in text of the current word
	word  uint64
	entry int32 // the number of the next entry to compare with the word; 0: none
}

// begin starts the search in a text of less than 1 GiB.
func (s *search) begin(text []byte) {
	s.text, s.from, s.n, s.at, s.entry = text, 0, 0, 0, 0
}

// next returns the pattern of the next literal in the text, or -1 after the last one. It may return a literal more than
// once.
func (s *search) next() int32 {
	for {
		for s.entry != 0 {
			e := &s.f.entries[s.entry-1]
			if e.word != s.word {
				s.entry = e.other
			} else if s.entry = e.next; e.stands(s.text, s.start-e.at) {
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
		s.word = fold(s.text[s.start:])
		s.entry = s.f.heads[hashWord(s.word)>>(wordBits-headBits)]
	}
}

// known writes the places of known grams in text to spots and returns their number. from is the place of text in the
// whole text. The loop has no branch that depends on the text, so the processor mispredicts none. The function is not
// inlined, because its variables then stay in registers.
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

// look fills words with the next known words of the text, and reports whether there are any.
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

// belong writes to words the known words that contain the grams at the first n spots, and returns their number.
func (s *search) belong(n uint) (m uint) {
	for _, place := range s.spots[:n] {
		if p := int(place) - stride + 1; p >= 0 && p+stride-1+minLiteral <= len(s.text) {
			// All words of the place lie in the text. Four calls are faster than a loop.
			around := s.text[p:][:stride-1+minLiteral]
			m += s.try(m, place*stride, around[3:])
			m += s.try(m, place*stride+1, around[2:])
			m += s.try(m, place*stride+2, around[1:])
			m += s.try(m, place*stride+3, around)
			continue
		}
		for k := range uint32(stride) {
			if p := int(place) - int(k); p >= 0 && p+minLiteral <= len(s.text) {
				m += s.try(m, place*stride+k, s.text[p:])
			}
		}
	}
	return m
}

// try writes a place to element m of words. It returns 1 if the word that begins text is known, else 0.
func (s *search) try(m uint, place uint32, text []byte) uint {
	s.words[m%uint(len(s.words))] = place
	h := hashWord(fold(text))
	return uint(s.f.words[h/64] >> (h % 64) & 1)
}
