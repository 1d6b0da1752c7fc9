package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// maxShown bounds a name of the plan in an error, in characters, and maxListed the names in one.
const maxShown, maxListed = 60, 8

func sortParts(parts []part) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.from, b.from) })
}

// order returns the loops on which each spec depends. If no section says so, each comes after the one before it.
func (d *document) order(specs []*section) (map[*section][]string, error) {
	says := false
	for _, s := range specs {
		for _, l := range d.lines[s.Last : s.end-1] {
			names, is := d.names(l)
			s.says = s.says || is
			for _, n := range names {
				s.names = append(s.names, name{n, l.N})
			}
		}
		says = says || s.says
	}
	after := map[*section][]string{}
	if !says {
		last := ""
		for _, s := range specs {
			if s.finished() {
				continue
			}
			if last != "" && !d.Independent {
				after[s] = []string{last}
			}
			last = s.loop
		}
		return after, nil
	}
	on := map[*section][]*section{}
	for _, s := range specs {
		for _, n := range s.names {
			dep, err := d.find(n)
			if err != nil {
				return nil, err
			}
			if dep == s {
				return nil, d.wrong(n.line, "%s depends on itself", shown(s.bare))
			}
			if !s.finished() && !dep.finished() && !slices.Contains(on[s], dep) {
				on[s] = append(on[s], dep)
				after[s] = append(after[s], dep.loop)
			}
		}
	}
	return after, d.circle(specs, on)
}

// circle returns an error if specs depend on each other.
func (d *document) circle(specs []*section, on map[*section][]*section) error {
	const begun, left = 1, 2
	state := map[*section]int{}
	var way []*section
	var visit func(s *section) error
	visit = func(s *section) error {
		state[s] = begun
		way = append(way, s)
		for _, dep := range on[s] {
			switch state[dep] {
			case left:
				continue
			case begun:
				var titles []string
				for _, w := range append(way[slices.Index(way, dep):], dep) {
					titles = append(titles, shown(w.bare))
				}
				return d.wrong(dep.names[0].line, "a circle: %s", strings.Join(titles, " depends on "))
			}
			if err := visit(dep); err != nil {
				return err
			}
		}
		way = way[:len(way)-1]
		state[s] = left
		return nil
	}
	for _, s := range specs {
		if state[s] == 0 {
			if err := visit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the spec that is named: by the number of its title, or by its number among the specs if no title has one; by
// its title, with or without the number; by the slug of these; by the name of its loop.
func (d *document) find(n name) (*section, error) {
	want := fold(n.text)
	var found []*section
	var listed []string
	position, hasNumbers := 0, slices.ContainsFunc(d.sections, func(s *section) bool { return s.loop != "" && s.number != "" })
	for _, s := range d.sections {
		number := s.number
		if s.loop != "" {
			position++
			if !hasNumbers {
				number = strconv.Itoa(position)
			}
			if len(listed) < maxListed {
				listed = append(listed, shown(s.bare))
			}
		}
		full := fold(s.Title)
		keys := []string{full, fold(s.bare), text.Slug(full, len(full)), text.Slug(s.bare, len(s.bare)), s.loop}
		if number != "" {
			keys = append(keys, number)
			if head, _, ok := strings.Cut(full, " "); ok && strings.HasPrefix(full, head+" "+number) {
				keys = append(keys, head+" "+number) // "phase 3"
			}
		}
		if want != "" && slices.Contains(keys, want) {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 1 && found[0].loop != "":
		return found[0], nil
	case len(found) == 1:
		return nil, d.wrong(n.line, "%s has no boxes, so it becomes no spec on which another could depend", shown(n.text))
	case len(found) > 1:
		return nil, d.wrong(n.line, "%s may be the section at line %d or the one at line %d; name it by its number", shown(n.text), found[0].Line, found[1].Line)
	}
	return nil, d.wrong(n.line, "there is no section %s; there are: %s", shown(n.text), strings.Join(listed, ", "))
}

// fold returns a title or a name as find compares it.
func fold(s string) string {
	s = box().ReplaceAllString(link().ReplaceAllString(s, "$1"), "")
	s = strings.ToLower(strings.Join(strings.Fields(marks.Replace(s)), " "))
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimRight(s, ".:"), "#"), ".md")
}

func shown(s string) string { return text.Line(s, maxShown) }
