package inputs

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// lockKind says how superloop finds the locations in a lock file: the URLs, repositories and directories that code
// comes from.
type lockKind struct {
	json bool // the file is JSON: the key of a string decides; otherwise all text is searched
	// wanted lists the keys whose strings are locations to load from; nil means all strings. A key "a.b" means key b of
	// the object under key a.
	wanted []string
	// archives says that a URL with the ending of an archive is a file of a registry. Of such a URL only the host
	// counts.
	archives bool
	hosts    bool     // only the host of every http or https URL counts
	skip     []string // prefixes of lines that hold prose
}

// sources returns the part "sources" of a lock file: the registries by their hosts, and every other location as it is
// written. The locked names, versions and hashes do not count, so a plain new dependency changes nothing.
func (k lockKind) sources(text []byte) ([]part, bool) {
	found := map[string]bool{}
	if k.json {
		if !scanJSON(text, func(parent, key, value string) {
			if k.wanted == nil || slices.Contains(k.wanted, key) || slices.Contains(k.wanted, parent+"."+key) {
				k.places(value, found)
				if key == "resolved" && !strings.Contains(value, ":") {
					found[value] = true // the value is the path of a directory
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
			if bytes.IndexByte(line, '\\') >= 0 { // an escape could hide a URL
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

// places adds the locations in a text to found.
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
			// A patch of a builtin comes with the package manager.
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

// place shortens the URL of a file in a registry to scheme and host.
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

// until returns the first index in s, beginning at from, that has one of the characters of stop, or len(s).
func until(s string, from int, stop string) int {
	if n := strings.IndexAny(s[from:], stop); n >= 0 {
		return from + n
	}
	return len(s)
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// lock returns the function that reads the lock files of a family. The name of the file decides the family, never the
// content, because an agent may write the content.
func lock(family string) func([]byte) ([]part, bool) {
	return map[string]lockKind{
		"npm":      {json: true, wanted: []string{"resolved", "version", "from"}},
		"bun":      {json: true},
		"pipenv":   {json: true},
		"bunb":     {hosts: true}, // the strings of bun.lockb have no separators
		"composer": {json: true, wanted: []string{"dist.url", "source.url"}, hosts: true},
		"pnpm":     {skip: []string{"deprecated:"}},
		"python":   {archives: true, skip: []string{"description =", "summary ="}},
	}[family].sources
}

// scanJSON calls found for every string value of a JSON text, with the key of the value and the key of the enclosing
// object. Within an array, the key of the array takes the place of both. scanJSON is made for lock files of many
// megabytes: it builds no tree. Like bun, it accepts comments and trailing commas. It returns false if the text is not
// JSON.
func scanJSON(text []byte, found func(parent, key, value string)) bool {
	var stack []string // the keys of the open objects and arrays
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

// stringEnd returns the offset of the quote that ends a string, or -1.
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
