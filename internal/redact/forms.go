package redact

import "bytes"

// A token of a well-known form is a secret wherever it stands. The forms are exact enough that hashes, ids and words are
// none of them: a fixed beginning, then at least so many bytes of an alphabet. There is no rule about entropy, because
// commit hashes, integrity hashes and ids of requests are as random as tokens.

// The alphabets of tokens, as bits of alphabet.
const (
	upper  = 1 << iota // A-Z 0-9
	alnum              // and a-z
	plain              // and _ -
	dotted             // and .
	base64             // alnum + / =
	credit             // what RFC 6750 allows in a Bearer header
	lines              // base64 in lines, and what stands around it in a key file, also escaped as in JSON
	path               // of a URL
)

var alphabet = func() (all [256]uint8) {
	add := func(chars string, bits uint8) {
		for i := range len(chars) {
			all[chars[i]] |= bits
		}
	}
	const every = alnum | plain | dotted | base64 | credit | lines | path
	add("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", upper|every)
	add("abcdefghijklmnopqrstuvwxyz", every)
	add("-_", plain|dotted|credit|path)
	add(".", dotted|credit|path)
	add("+/=", base64|credit|lines|path)
	add("~", credit|path)
	add("%&?@:", path)
	add(" \t\r\n\\:,-", lines)
	return all
}()

// form is a kind of token.
type form struct {
	begin    string
	alphabet uint8
	least    int  // bytes behind begin
	exact    bool // there are exactly least bytes
	digit    bool // there is a digit among the first least bytes, and an upper-case letter unless these are all hexadecimal
	anywhere bool // the byte before may be a letter or a digit
	keep     int  // bytes of begin that are no secret
}

var forms = []form{
	{begin: "ghp_", alphabet: alnum, least: 30, anywhere: true}, {begin: "gho_", alphabet: alnum, least: 30, anywhere: true},
	{begin: "ghu_", alphabet: alnum, least: 30, anywhere: true}, {begin: "ghs_", alphabet: alnum, least: 30, anywhere: true},
	{begin: "ghr_", alphabet: alnum, least: 30, anywhere: true}, {begin: "github_pat_", alphabet: plain, least: 40, anywhere: true},
	{begin: "glpat-", alphabet: dotted, least: 20, anywhere: true}, {begin: "gldt-", alphabet: plain, least: 20}, {begin: "glrt-", alphabet: dotted, least: 20},
	{begin: "glcbt-", alphabet: plain, least: 20}, {begin: "glptt-", alphabet: plain, least: 20},
	{begin: "sk-ant-", alphabet: plain, least: 20, anywhere: true}, {begin: "sk-", alphabet: plain, least: 24, digit: true},
	{begin: "sk_live_", alphabet: alnum, least: 20}, {begin: "sk_test_", alphabet: alnum, least: 20}, {begin: "rk_live_", alphabet: alnum, least: 20},
	{begin: "xoxb-", alphabet: plain, least: 16, anywhere: true}, {begin: "xoxp-", alphabet: plain, least: 16, anywhere: true},
	{begin: "xoxa-", alphabet: plain, least: 16}, {begin: "xoxr-", alphabet: plain, least: 16}, {begin: "xoxs-", alphabet: plain, least: 16},
	{begin: "xoxe-", alphabet: plain, least: 16}, {begin: "xoxe.", alphabet: dotted, least: 16}, {begin: "xapp-", alphabet: plain, least: 16},
	{begin: "AKIA", alphabet: upper, least: 16, exact: true}, {begin: "ASIA", alphabet: upper, least: 16, exact: true},
	{begin: "AIza", alphabet: plain, least: 35, exact: true}, {begin: "ya29.", alphabet: plain, least: 30, digit: true}, {begin: "GOCSPX-", alphabet: plain, least: 24},
	{begin: "npm_", alphabet: alnum, least: 36}, {begin: "pypi-", alphabet: plain, least: 50}, {begin: "hf_", alphabet: alnum, least: 30, digit: true},
	{begin: "SG.", alphabet: dotted, least: 50, digit: true}, {begin: "dop_v1_", alphabet: alnum, least: 40}, {begin: "shpat_", alphabet: alnum, least: 32},
	{begin: "gsk_", alphabet: alnum, least: 40}, {begin: "xai-", alphabet: alnum, least: 40}, {begin: "hvs.", alphabet: plain, least: 24, digit: true},
	{begin: "lin_api_", alphabet: alnum, least: 32}, {begin: "ATATT3", alphabet: base64 | plain, least: 60}, {begin: "AGE-SECRET-KEY-1", alphabet: upper, least: 40},
	{begin: "sls_", alphabet: plain, least: 40, anywhere: true}, {begin: "slt_", alphabet: plain, least: 40, anywhere: true}, // of superloop's own daemon
	{begin: "Bearer ", alphabet: credit, least: 20, digit: true, keep: 7}, {begin: "bearer ", alphabet: credit, least: 20, digit: true, keep: 7},
	{begin: "Authorization: Basic ", alphabet: base64, least: 12, keep: 21}, {begin: "authorization: Basic ", alphabet: base64, least: 12, keep: 21},
	{begin: "hooks.slack.com/", alphabet: path, least: 20, anywhere: true, keep: 16}, {begin: "/api/webhooks/", alphabet: path, least: 60, anywhere: true, keep: 14},
	{begin: "/webhookb2/", alphabet: path, least: 40, anywhere: true, keep: 11}, {begin: "office.com/webhook/", alphabet: path, least: 40, anywhere: true, keep: 19},
}

// pairs says of the first two bytes of a text whether a form may begin there, and of its last byte alone.
type pairs struct {
	two [1 << 16]uint8 // 1 + the index in lists
	one [256]bool
}

var (
	starts pairs
	lists  = func() (all [][]*form) {
		at := map[string]int{}
		add := func(begin string, f *form) {
			pair := begin[:2]
			if _, ok := at[pair]; !ok {
				at[pair] = len(all)
				all = append(all, nil)
			}
			i := at[pair]
			if f != nil {
				all[i] = append(all[i], f)
			}
			starts.two[int(pair[0])<<8|int(pair[1])], starts.one[pair[0]] = uint8(i+1), true
		}
		for i := range forms {
			add(forms[i].begin, &forms[i])
		}
		for _, begin := range []string{jwt, pem, authority} {
			add(begin, nil)
		}
		return all
	}()
)

// The beginnings of the forms that have a reader of their own.
const (
	jwt       = "eyJ"
	pem       = "-----BEGIN "
	authority = "://"
)

// ahead bounds the bytes from its beginning that must be known to recognise a token.
const ahead = 512

// token is the result of a look at the beginning of a text.
type token struct {
	open bool  // more bytes must be known first
	keep int   // bytes that are no secret
	n    int   // bytes of the secret behind these; 0: there is none
	more uint8 // the alphabet of the bytes that belong to the secret, too, behind these
}

// look recognises a token at the beginning of text. before holds the bytes before it, as far as they are known. whole
// says that the text ends here.
func look(before, text []byte, whole bool) token {
	if len(text) == 1 {
		return token{open: !whole && starts.one[text[0]]}
	}
	list := starts.two[int(text[0])<<8|int(text[1])]
	if list == 0 {
		return token{}
	}
	for _, f := range lists[list-1] {
		if t := f.look(before, text, whole); t.n > 0 || t.open {
			return t
		}
	}
	switch {
	case text[0] == 'e' && fresh(before):
		return lookJWT(text, whole)
	case text[0] == '-':
		return lookPEM(text, whole)
	case text[0] == ':':
		return lookURL(text, whole)
	}
	return token{}
}

// begins reports whether text begins with begin. open says that text is too short to know.
func begins(text []byte, begin string, whole bool) (yes, open bool) {
	if len(text) >= len(begin) {
		return string(text[:len(begin)]) == begin, false
	}
	return false, !whole && begin[:len(text)] == string(text)
}

func (f *form) look(before, text []byte, whole bool) token {
	yes, open := begins(text, f.begin, whole)
	if !yes || !f.anywhere && !fresh(before) {
		return token{open: open && (f.anywhere || fresh(before))}
	}
	body := text[len(f.begin):]
	n, digit, big, hex := 0, false, false, true
	for n < len(body) && n < f.least && alphabet[body[n]]&f.alphabet != 0 {
		c := body[n]
		digit = digit || '0' <= c && c <= '9'
		big = big || 'A' <= c && c <= 'Z'
		hex = hex && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f')
		n++
	}
	switch {
	case n == len(body) && (n < f.least || f.exact) && !whole:
		return token{open: true}
	case n < f.least, f.digit && (!digit || !big && !hex):
		return token{}
	case f.exact && n < len(body) && alphabet[body[n]]&plain != 0:
		return token{}
	case f.exact:
		return token{n: len(f.begin) + n}
	}
	return token{keep: f.keep, n: len(f.begin) - f.keep + n, more: f.alphabet}
}

// fresh reports whether a token may begin behind these bytes: at the beginning, behind a byte that is no letter, digit
// or underscore, or behind an escape of JSON or of a terminal's colours.
func fresh(before []byte) bool {
	n := len(before)
	if n == 0 || before[n-1] != '_' && alphabet[before[n-1]]&alnum == 0 {
		return true
	}
	if n > 1 && before[n-2] == '\\' && bytes.IndexByte([]byte("nrtbf"), before[n-1]) >= 0 {
		return true
	}
	if before[n-1] != 'm' { // ESC [ 1 ; 32 m
		return false
	}
	for n--; n > 0 && (before[n-1] == ';' || '0' <= before[n-1] && before[n-1] <= '9'); n-- {
	}
	return n > 1 && before[n-1] == '[' && (before[n-2] == 0x1b || before[n-2] == 'b' || before[n-2] == '3')
}

// lookJWT recognises a JSON web token: two parts of base64url that begin as a JSON object does, and a signature.
func lookJWT(text []byte, whole bool) token {
	n := 0
	for n < len(text) && n < ahead && alphabet[text[n]]&plain != 0 {
		n++
	}
	switch {
	case n == len(text) && !whole:
		return token{open: true}
	case n < 16 || n == ahead || n == len(text) || text[n] != '.':
		return token{}
	}
	yes, open := begins(text[n+1:], jwt, whole)
	if !yes {
		return token{open: open}
	}
	return token{n: n + 1 + len(jwt), more: dotted}
}

// lookPEM recognises a private key in the form of PEM: its first line, and at least 40 bytes of its body.
func lookPEM(text []byte, whole bool) token {
	if yes, open := begins(text, pem, whole); !yes {
		return token{open: open}
	}
	n := len(pem)
	for n < len(text) && n < len(pem)+40 && (text[n] == ' ' || alphabet[text[n]]&upper != 0) {
		n++
	}
	line := text[:n]
	yes, open := begins(text[n:], "-----", whole)
	switch {
	case open, n == len(text) && !whole:
		return token{open: true}
	case !yes || !bytes.Contains(line, []byte("PRIVATE KEY")):
		return token{}
	}
	n += len("-----")
	body := 0
	for n < len(text) && n < ahead && body < 40 && alphabet[text[n]]&lines != 0 {
		if alphabet[text[n]]&base64 != 0 {
			body++
		}
		n++
	}
	switch {
	case body == 40:
		return token{n: n, more: lines}
	case n == len(text) && !whole:
		return token{open: true}
	}
	return token{}
}

// lookURL recognises a password in a URL, from "://" on. A placeholder such as $TOKEN or *** is none.
func lookURL(text []byte, whole bool) token {
	if yes, open := begins(text, authority, whole); !yes {
		return token{open: open}
	}
	colon := 0
	for n := len(authority); n < ahead; n++ {
		if n == len(text) {
			return token{open: !whole}
		}
		switch c := text[n]; {
		case c == '@' && colon > 0 && n > colon+1 && bytes.IndexByte([]byte("$<*{%"), text[colon+1]) < 0:
			return token{keep: colon + 1, n: n - colon - 1}
		case c == ':' && colon == 0:
			colon = n
		case c <= ' ' || c == '@' || bytes.IndexByte([]byte("\"'`<>\\/?#,;(){}[]|"), c) >= 0:
			return token{}
		}
	}
	return token{}
}

// endOfPEM returns the bytes up to the end of a key's last line that begins text, or 0. open says that more must be known.
func endOfPEM(text []byte, whole bool) (n int, open bool) {
	const end = "-----END "
	if yes, open := begins(text, end, whole); !yes {
		return 0, open
	}
	if at := bytes.Index(text[len(end):min(len(text), len(end)+50)], []byte("-----")); at >= 0 {
		return len(end) + at + 5, false
	}
	return 0, !whole && len(text) < len(end)+50
}
