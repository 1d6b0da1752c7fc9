package guard

import (
	"strings"
)

// setting is a key of a TOML file with the tables that it stands in, and its
// value as it is written, white space and comments aside.
type setting struct{ path, value string }

// tomlSettings reads a TOML file into its settings, in their order. Inline tables
// and arrays stay values. It is strict where something could hide: what it does
// not understand is no TOML (false), and then the whole file counts.
func tomlSettings(text []byte) ([]setting, bool) {
	t := tomlReader{s: strings.TrimPrefix(string(text), "\xef\xbb\xbf")}
	var out []setting
	table := ""
	for {
		t.blank(true)
		if t.s == "" {
			return out, true
		}
		if t.s[0] == '[' {
			list := strings.HasPrefix(t.s, "[[")
			t.s = strings.TrimPrefix(t.s[1:], "[")
			key, ok := t.key()
			end := "]"
			if list {
				end = "]]"
			}
			if !ok || !strings.HasPrefix(t.s, end) {
				return nil, false
			}
			t.s = t.s[len(end):]
			table = key
			if !t.endOfLine() {
				return nil, false
			}
			continue
		}
		key, ok := t.key()
		if !ok || !strings.HasPrefix(t.s, "=") {
			return nil, false
		}
		t.s = t.s[1:]
		value, ok := t.value(0)
		if !ok || !t.endOfLine() {
			return nil, false
		}
		if table != "" {
			key = table + "." + key
		}
		out = append(out, setting{key, value})
	}
}

type tomlReader struct{ s string }

// blank skips white space and comments; lines too if it may.
func (t *tomlReader) blank(lines bool) {
	for t.s != "" {
		switch c := t.s[0]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			t.s = t.s[1:]
		case c == '#':
			n := strings.IndexByte(t.s, '\n')
			if n < 0 {
				n = len(t.s)
			}
			t.s = t.s[n:]
		default:
			return
		}
	}
}

func (t *tomlReader) endOfLine() bool {
	t.blank(false)
	return t.s == "" || t.s[0] == '\n' || strings.HasPrefix(t.s, "\r\n")
}

// key reads a dotted key; names in quotes lose them, so that "build-system" and
// build-system are one.
func (t *tomlReader) key() (string, bool) {
	var names []string
	for {
		t.blank(false)
		if t.s == "" {
			return "", false
		}
		var name string
		if q := t.s[0]; q == '"' || q == '\'' {
			n := strings.IndexByte(t.s[1:], q)
			if n < 0 || strings.ContainsAny(t.s[1:1+n], "\\\n") {
				return "", false
			}
			name, t.s = t.s[1:1+n], t.s[2+n:]
		} else {
			n := 0
			for n < len(t.s) && (letter(t.s[n]) || t.s[n] == '_' || t.s[n] == '-' || t.s[n] >= '0' && t.s[n] <= '9') {
				n++
			}
			if n == 0 {
				return "", false
			}
			name, t.s = t.s[:n], t.s[n:]
		}
		names = append(names, name)
		t.blank(false)
		if !strings.HasPrefix(t.s, ".") {
			return strings.Join(names, "."), true
		}
		t.s = t.s[1:]
	}
}

// value reads a value and gives it without comments and needless white space.
func (t *tomlReader) value(depth int) (string, bool) {
	t.blank(false)
	if t.s == "" || depth > 50 {
		return "", false
	}
	switch c := t.s[0]; c {
	case '"', '\'':
		return t.quoted(c)
	case '[', '{':
		end := byte(']')
		if c == '{' {
			end = '}'
		}
		var b strings.Builder
		b.WriteByte(c)
		t.s = t.s[1:]
		for {
			t.blank(true)
			if t.s == "" {
				return "", false
			}
			if t.s[0] == end {
				t.s = t.s[1:]
				b.WriteByte(end)
				return b.String(), true
			}
			if b.Len() > 1 {
				if t.s[0] != ',' {
					return "", false
				}
				t.s = t.s[1:]
				t.blank(true)
				if t.s != "" && t.s[0] == end {
					continue
				}
				b.WriteString(", ")
			}
			if c == '{' {
				key, ok := t.key()
				if !ok || !strings.HasPrefix(t.s, "=") {
					return "", false
				}
				t.s = t.s[1:]
				b.WriteString(key + " = ")
			}
			v, ok := t.value(depth + 1)
			if !ok {
				return "", false
			}
			b.WriteString(v)
		}
	}
	n := strings.IndexAny(t.s, " \t\r\n,]}#")
	if n < 0 {
		n = len(t.s)
	}
	v := t.s[:n]
	t.s = t.s[n:]
	return v, v != ""
}

func (t *tomlReader) quoted(q byte) (string, bool) {
	if three := strings.Repeat(string(q), 3); strings.HasPrefix(t.s, three) {
		for i := 3; i < len(t.s); i++ {
			if q == '"' && t.s[i] == '\\' {
				i++
				continue
			}
			if strings.HasPrefix(t.s[i:], three) {
				end := i + 3
				for end < len(t.s) && t.s[end] == q && end < i+5 {
					end++
				}
				v := t.s[:end]
				t.s = t.s[end:]
				return v, true
			}
		}
		return "", false
	}
	for i := 1; i < len(t.s) && t.s[i] != '\n'; i++ {
		switch {
		case q == '"' && t.s[i] == '\\':
			i++
		case t.s[i] == q:
			v := t.s[:i+1]
			t.s = t.s[i+1:]
			return v, true
		}
	}
	return "", false
}

// tomlParts gives those settings that count as parts; keep may change a value.
func tomlParts(text []byte, keep func(s *setting) bool) ([]part, bool) {
	all, ok := tomlSettings(text)
	if !ok {
		return nil, false
	}
	var out []part
	at := map[string]int{}
	for _, s := range all {
		if !keep(&s) {
			continue
		}
		// A key of a [[list]] comes once for each element.
		if i, ok := at[s.path]; ok {
			out[i].text += "\n" + s.value
			continue
		}
		at[s.path] = len(out)
		out = append(out, part{s.path, s.value})
	}
	return out, true
}
