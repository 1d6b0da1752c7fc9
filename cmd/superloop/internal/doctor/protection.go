package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/steering"
)

// surroundings says what a run at level L1 would keep agents from outside of the repository, what protect.allow opens,
// and what agent programs need and get. It only looks.
func (p Target) surroundings(context.Context) Result {
	home := steering.Home{Env: append(os.Environ(), "PATH="+p.Path), Work: []string{p.Repo}, Needed: []string{os.TempDir()}}
	for _, l := range p.Loops {
		home.Needed = append(home.Needed, l.Private)
	}
	if p.Config != nil {
		home.Paths, home.Allow = p.Config.Protect.Paths, p.Config.Opened()
	}
	r := judgeSurroundings(home.Survey().Places)
	for _, a := range home.Allow {
		if !strings.ContainsAny(a, "~/") && !slices.Contains(steering.IDs(), a) {
			r.Status, r.Fix = Warn, fmt.Sprintf("write one of these into protect.allow: %s", strings.Join(steering.IDs(), ", "))
			r.Detail += fmt.Sprintf("; protect.allow names the group %q, which does not exist", a)
		}
	}
	return r
}

func judgeSurroundings(places []steering.Place) Result {
	groups := map[steering.State]map[string]int{}
	paths := map[steering.State][]string{}
	for _, place := range places {
		if groups[place.State] == nil {
			groups[place.State] = map[string]int{}
		}
		groups[place.State][place.ID]++
		text := place.Path
		if place.Note != "" {
			text += " (" + place.Note + ")"
		}
		if !slices.Contains(paths[place.State], text) {
			paths[place.State] = append(paths[place.State], text)
		}
	}
	var parts []string
	for _, s := range []struct {
		state steering.State
		says  string
	}{
		{steering.ReadOnly, "agents at L1 cannot write %d places that steer other programs"},
		{steering.Kept, "%d missing ones cannot be made while a loop runs"},
		{steering.Hidden, "%d sockets of services are hidden"},
	} {
		if n := len(paths[s.state]); n > 0 {
			parts = append(parts, fmt.Sprintf(s.says, n)+" ("+strings.Join(slices.Sorted(maps.Keys(groups[s.state])), ", ")+")")
		}
	}
	for _, s := range []struct {
		state steering.State
		says  string
	}{
		{steering.Open, "protect.allow opens "},
		{steering.Work, "agents can write, because it lies in the repository: "},
		{steering.Exposed, "not held: "},
		{steering.Given, "agent programs and tools keep their own state: "},
	} {
		if list := paths[s.state]; len(list) > 0 {
			parts = append(parts, s.says+strings.Join(shortened(list), ", "))
		}
	}
	r := ok("%s; superloop doctor --json lists all", strings.Join(parts, "; "))
	if len(parts) == 0 {
		r = ok("nothing outside of the repository steers other programs")
	}
	if len(paths[steering.Exposed]) > 0 {
		r.Status, r.Fix = Warn, "name these places by their real paths in protect.paths, or move them"
	}
	r.Protection = places
	return r
}

// shortened writes paths below the home directory with ~.
func shortened(paths []string) []string {
	home, err := os.UserHomeDir()
	out := slices.Clone(paths)
	for i, path := range out {
		if rest, below := strings.CutPrefix(path, home+string(filepath.Separator)); err == nil && below {
			out[i] = "~/" + rest
		}
	}
	return out
}
