package forgefake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"strings"
)

type object = map[string]any

// quiet is a log that nobody reads: connections that a Fault cuts are no news.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// body returns a value as JSON. What the callers hand over can always be encoded.
func body(v any) io.Reader {
	if v == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		panic(err)
	}
	return &b
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.Copy(w, body(v))
}

// refuse answers with an error as GitHub words it; GitLab has message, too.
func refuse(w http.ResponseWriter, status int, message string) {
	reply(w, status, object{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)})
}

// read decodes the body of a request. A body that is no JSON reads as an empty one.
func read(r *http.Request) object {
	v := object{}
	_ = json.NewDecoder(r.Body).Decode(&v)
	return v
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// page cuts a list as a request wants it, and says in the headers of both services where the next page is.
func page[T any](w http.ResponseWriter, r *http.Request, list []T) []T {
	q := r.URL.Query()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(q.Get(name)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	size, n := min(number("per_page", 30), 100), number("page", 1)
	from := min((n-1)*size, len(list))
	to := min(from+size, len(list))
	w.Header().Set("X-Page", strconv.Itoa(n))
	w.Header().Set("X-Next-Page", "")
	if to < len(list) {
		q.Set("page", strconv.Itoa(n+1))
		w.Header().Set("Link", fmt.Sprintf(`<https://%s%s?%s>; rel="next"`, r.Host, r.URL.Path, q.Encode()))
		w.Header().Set("X-Next-Page", strconv.Itoa(n+1))
	}
	return append([]T{}, list[from:to]...)
}

// selection is what a query of GraphQL asks for: each field with what is asked of it.
type selection struct {
	field     string
	fragment  string // the name after ..., for one that stands elsewhere
	fragments bool   // an inline fragment
	sub       []selection
}

// query takes a query of GraphQL apart: the name of its operation, what it asks for, and its fragments. It reads what
// superloop sends, without values that hold braces in strings.
func query(s string) (operation string, root []selection, fragments map[string][]selection) {
	p := &queryParser{words: words(s)}
	fragments = map[string][]selection{}
	for len(p.words) > 0 {
		kind, name := p.next(), p.next()
		for len(p.words) > 0 && p.words[0] != "{" {
			p.next()
		}
		set := p.set()
		if kind == "fragment" {
			fragments[name] = set
		} else {
			operation, root = name, set
		}
	}
	return operation, root, fragments
}

// words splits a query, without the arguments in parentheses.
func words(s string) []string {
	var b strings.Builder
	depth := 0
	for _, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth > 0:
		case c == '{' || c == '}':
			b.WriteString(" " + string(c) + " ")
		case c == ',':
			b.WriteByte(' ')
		default:
			b.WriteRune(c)
		}
	}
	return strings.Fields(strings.ReplaceAll(b.String(), "...", " ... "))
}

type queryParser struct{ words []string }

func (p *queryParser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// set reads a set of fields in braces.
func (p *queryParser) set() (list []selection) {
	p.next()
	for len(p.words) > 0 && p.words[0] != "}" {
		var s selection
		switch w := p.next(); {
		case w == "..." && len(p.words) > 0 && p.words[0] == "on":
			p.next()
			p.next()
			s.fragments = true
		case w == "...":
			s.fragment = p.next()
		default:
			s.field = w
		}
		if len(p.words) > 0 && p.words[0] == "{" {
			s.sub = p.set()
		}
		list = append(list, s)
	}
	p.next()
	return list
}

// project returns of a value what was asked for. A field that the value does not have is left out, as the field of
// another type is in a fragment.
func project(v any, want []selection, fragments map[string][]selection) any {
	switch v := v.(type) {
	case []object:
		list := []any{}
		for _, o := range v {
			list = append(list, project(o, want, fragments))
		}
		return list
	case object:
		if v == nil {
			return nil
		}
		out := object{}
		for _, s := range want {
			set := s.sub
			switch {
			case s.fragment != "":
				set = fragments[s.fragment]
				fallthrough
			case s.fragments:
				for name, x := range project(v, set, fragments).(object) {
					out[name] = x
				}
			default:
				if x, ok := v[s.field]; ok {
					out[s.field] = project(x, set, fragments)
				}
			}
		}
		return out
	}
	return v
}
