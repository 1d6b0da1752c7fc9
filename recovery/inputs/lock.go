package inputs

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// lockKind says how a lock file is read for the places that it names.
type lockKind struct {
	json bool // strings are read by their keys; else all of the text is searched
	// wanted are the keys under which a URL is a place to load from; of a key "a.b" the object must be the value of a.
	// nil: every string.
	wanted []string
	// archives: a URL that ends like an archive is a file of a registry, of which only the host counts.
	archives bool
	hosts    bool     // of every web address only the host counts
	skip     []string // begins the lines that are prose
}

// sources gives the part "sources" of a lock file: the registries by their hosts, and every place that is no registry
// as it is written. What it locks (names, versions, hashes) does not count, so a plain new dependency changes nothing.
func (k lockKind) sources(text []byte) ([]part, bool) {
	found := map[string]bool{}
	if k.json {
		if !scanJSON(text, func(parent, key, value string) {
			if k.wanted == nil || slices.Contains(k.wanted, key) || slices.Contains(k.wanted, parent+"."+key) {
				k.places(value, found)
				if key == "resolved" && !strings.Contains(value, ":") {
					found[value] = true // a directory
				}
			} else if i := strings.Index(value, "://"); i < 0 || !strings.HasSuffix(value[:i], "http") && !strings.HasSuffix(value[:i], "https") || strings.HasPrefix(value, "git+") {
				k.places(value, found)
			}
		}) {
			return nil, false
		}
	} else {
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			if slices.ContainsFunc(k.skip, func(s string) bool { return bytes.HasPrefix(line, []byte(s)) }) {
				continue
			}
			if bytes.IndexByte(line, '\\') >= 0 { // an escape could hide an address
				found[string(line)] = true
			}
			k.places(string(line), found)
		}
	}
	if len(found) == 0 {
		return nil, true
	}
	return []part{{"sources", strings.Join(slices.Sorted(maps.Keys(found)), "\n") + "\n"}}, true
}

// places finds the places in a text.
func (k lockKind) places(text string, found map[string]bool) {
	if strings.IndexByte(text, ':') < 0 && strings.IndexByte(text, '%') < 0 {
		return
	}
	for rest, at := text, 0; ; {
		i := strings.Index(rest[at:], "://")
		if i < 0 {
			break
		}
		i += at
		begin := i
		for begin > 0 && (letter(rest[begin-1]) || strings.IndexByte("+.-0123456789", rest[begin-1]) >= 0) {
			begin--
		}
		end := until(rest, i+3, " \t\r\n\"'<>,)]}\x00")
		found[k.place(rest[begin:end])] = true
		at = end
	}
	for _, scheme := range []string{"git@", "github:", "gitlab:", "bitbucket:", "gist:", "file:", "portal:", "patch:", "directory:"} {
		for rest := text; ; {
			i := strings.Index(rest, scheme)
			if i < 0 {
				break
			}
			end := until(rest, i+len(scheme), " \t\r\n\"',)]}")
			// patch: of a builtin comes with the package manager.
			if place := rest[i:end]; (i == 0 || !letter(rest[i-1])) && !strings.HasPrefix(place, "file://") && !strings.Contains(place, "builtin<") {
				found[strings.TrimRight(place, ":")] = true
			}
			rest = rest[end:]
		}
	}
	if _, archive, ok := strings.Cut(text, "__archiveUrl="); ok {
		if plain, err := url.QueryUnescape(strings.TrimRight(archive, `":`)); err == nil {
			archive = plain
		}
		found[k.place(archive)] = true
	}
}

// place shortens an address in a registry to its host.
func (k lockKind) place(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	if scheme != "http" && scheme != "https" {
		return address
	}
	host, file, _ := strings.Cut(rest, "/")
	file, _, _ = strings.Cut(file, "#")
	if k.hosts || strings.Contains(file, "/-/") || strings.Contains(file, "/download/") || strings.HasPrefix(file, "download/") ||
		k.archives && (strings.HasSuffix(file, ".whl") || strings.HasSuffix(file, ".gz") || strings.HasSuffix(file, ".zip") || strings.HasSuffix(file, ".metadata") || strings.HasSuffix(file, "/simple")) {
		return scheme + "://" + host
	}
	return address
}

// until is where s, from a place on, has one of the characters of stop; its end if it has none.
func until(s string, from int, stop string) int {
	if n := strings.IndexAny(s[from:], stop); n >= 0 {
		return from + n
	}
	return len(s)
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// lock is how the lock files of a family are read. It goes by the name of the file, never by what is in it: that is the
// agent's.
func lock(family string) func([]byte) ([]part, bool) {
	return map[string]lockKind{
		"npm":      {json: true, wanted: []string{"resolved", "version", "from"}},
		"bun":      {json: true},
		"pipenv":   {json: true},
		"bunb":     {hosts: true}, // its strings run into each other
		"composer": {json: true, wanted: []string{"dist.url", "source.url"}, hosts: true},
		"pnpm":     {skip: []string{"deprecated:"}},
		"python":   {archives: true, skip: []string{"description =", "summary ="}},
	}[family].sources
}

// scanJSON calls found for every string value of a JSON text, with the key it stands under and the key of the object
// that is in; in an array that is the array's key. It is made for lock files of many megabytes: it builds nothing, and
// it takes comments and trailing commas as bun does. false: that is no JSON.
func scanJSON(text []byte, found func(parent, key, value string)) bool {
	var stack []string // keys of the objects and arrays that are open
	var array []bool
	key, pending := "", ""
	s := string(text)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{', '[':
			if len(stack) > 1000 {
				return false
			}
			stack, array = append(stack, key), append(array, c == '[')
			if c == '{' {
				key = ""
			}
		case '}', ']':
			if len(stack) == 0 || array[len(array)-1] != (c == ']') {
				return false
			}
			key = stack[len(stack)-1]
			stack, array = stack[:len(stack)-1], array[:len(array)-1]
			if len(array) > 0 && !array[len(array)-1] {
				key = ""
			}
		case ',':
			if len(array) > 0 && !array[len(array)-1] {
				key = ""
			}
		case '/':
			if i+1 >= len(s) {
				return false
			}
			end := "\n"
			if s[i+1] == '*' {
				end = "*/"
			}
			n := strings.Index(s[i:], end)
			if n < 0 {
				return true
			}
			i += n + len(end) - 1
		case '"':
			n := stringEnd(s[i+1:])
			if n < 0 {
				return false
			}
			value := s[i+1 : i+1+n]
			if strings.IndexByte(value, '\\') >= 0 {
				if json.Unmarshal([]byte(s[i:i+n+2]), &pending) != nil {
					return false
				}
				value = pending
			}
			i += n + 1
			if len(array) > 0 && !array[len(array)-1] && key == "" && colonNext(s[i+1:]) {
				key = value
				continue
			}
			parent := ""
			if len(stack) > 0 {
				parent = stack[len(stack)-1]
			}
			found(parent, key, value)
		}
	}
	return len(stack) == 0
}

// stringEnd is the offset of the quote that ends a string.
func stringEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

func colonNext(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(" \t\r\n", s[i]) < 0 {
			return s[i] == ':'
		}
	}
	return false
}
