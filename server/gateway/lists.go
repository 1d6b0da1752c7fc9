package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/api"
	"github.com/superloop/superloop/server/slots"
)

// list says how the lists of all machines become one.
type list struct {
	field string
	// key orders the list, as each machine does, and is the cursor behind an item.
	key func(item) string
	// away returns what is known of a machine that is away.
	away func(q filter, m *machine, k known) []item
}

// lists are the lists, by their routes.
var lists = map[string]list{
	"GET /api/v1/loops":       {"loops", named("id"), rowsAway},
	"GET /api/v1/escalations": {"escalations", questionKey, questionsAway},
	"GET /api/v1/machines":    {"machines", named("id"), func(_ filter, _ *machine, k known) []item { return []item{k.Machine.asOf(k.At)} }},
	"GET /api/v1/repos":       {"repos", named("repo"), reposAway(false)},
	"GET /api/v1/runners":     {"repos", named("repo"), reposAway(true)},
	"GET /api/v1/space":       {"repos", named("repo"), reposAway(true)},
	"GET /api/v1/channels":    {"repos", named("repo"), reposAway(true)},
	"GET /api/v1/chains":      {"repos", named("repo"), reposAway(true)},
}

func named(name string) func(item) string { return func(i item) string { return i.text(name) } }

// questionKey is the cursor of server/api: the oldest question first.
func questionKey(i item) string {
	at, _ := time.Parse(time.RFC3339Nano, i.text("created_at")) // what has no time is the oldest
	return at.UTC().Format("20060102T150405.000") + "-" + i.text("id")
}

// filter is what a request wants of a list.
type filter func(name string) string

// passes reports whether an item has what the request wants in each of these members.
func (q filter) passes(i item, names ...string) bool {
	for _, name := range names {
		if want := q(name); want != "" && i.text(name) != want {
			return false
		}
	}
	return true
}

func rowsAway(q filter, _ *machine, k known) (out []item) {
	for _, row := range byID(k.Rows) {
		var labels []string
		_ = json.Unmarshal(row["labels"], &labels) // what has none has none
		if q.passes(row, "repo", "status") && strings.Contains(row.text("repo")+"#"+row.text("loop"), q("q")) && (q("label") == "" || slices.Contains(labels, q("label"))) {
			out = append(out, row.asOf(k.At))
		}
	}
	return out
}

func questionsAway(q filter, _ *machine, k known) (out []item) {
	if state := q("state"); state == "answered" {
		return nil
	}
	for _, i := range byID(k.Questions) {
		if loop := q("loop"); loop == "" || i.text("loop_id") == loop {
			out = append(out, i.asOf(k.At))
		}
	}
	return out
}

// reposAway are the repositories of which the machine has told loops; with why what else is asked of them is not known.
func reposAway(why bool) func(filter, *machine, known) []item {
	return func(q filter, m *machine, k known) (out []item) {
		loops := map[string][]string{}
		for _, row := range byID(k.Rows) {
			loops[row.text("repo")] = append(loops[row.text("repo")], row.text("id"))
		}
		for _, repo := range slices.Sorted(maps.Keys(loops)) {
			i := item{}
			for name, v := range map[string]any{"repo": repo, "machine": m.id, "loops": loops[repo], "error": "machine " + m.name() + " is away"} {
				if why && name == "loops" || !why && name == "error" {
					continue
				}
				i[name], _ = json.Marshal(v) // it is text
			}
			if q.passes(i, "repo") {
				out = append(out, i)
			}
		}
		return out
	}
}

// said is what a machine has answered.
type said struct {
	m      *machine
	status int
	head   http.Header
	body   []byte
	err    error // it is away
}

// asIs is a request without a body as it came.
func asIs(r *http.Request, who api.Asker) request {
	return request{method: r.Method, target: r.URL.RequestURI(), head: r.Header, user: who.User}
}

// ask asks all machines, or one, the same, and waits for what they answer.
func (g *Gateway) ask(ctx context.Context, q request, only string) []said {
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	all, _ := g.all()
	all = slices.DeleteFunc(slices.Clone(all), func(m *machine) bool { return only != "" && m.id != only })
	out := make([]said, len(all))
	var asked sync.WaitGroup
	for i, m := range all {
		out[i] = said{m: m, err: errAway}
		l := m.link()
		if l == nil {
			continue
		}
		asked.Go(func() {
			res, err := l.do(ctx, q)
			if err == nil {
				out[i].status, out[i].head = res.StatusCode, res.Header
				out[i].body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
				_ = res.Body.Close()
			}
			out[i].err = err
		})
	}
	asked.Wait()
	return out
}

var errAway = errors.New("the machine is away")

// refusal answers with the first problem that a machine has told, if there is one: the request was not right, or all would
// have answered.
func refusal(w http.ResponseWriter, all []said) bool {
	for _, s := range all {
		if s.err == nil && s.status != http.StatusOK {
			w.Header().Set("Content-Type", s.head.Get("Content-Type"))
			w.WriteHeader(s.status)
			_, _ = w.Write(s.body) // the client has gone
			return true
		}
	}
	return false
}

// list answers with a page of what all machines have.
func (g *Gateway) list(w http.ResponseWriter, r *http.Request, who api.Asker, l list) {
	q := r.URL.Query()
	limit := 100
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1000 {
			api.Refuse(w, http.StatusUnprocessableEntity, "invalid", "limit is a number from 1 to 1000")
			return
		}
		limit = n
	}
	all := g.ask(r.Context(), asIs(r, who), q.Get("machine"))
	if refusal(w, all) {
		return
	}
	cursor, more := q.Get("cursor"), false
	found := []item{}
	for _, s := range all {
		if s.err == nil {
			var page map[string]json.RawMessage
			var items []item
			var next string
			if err := text.Decode(s.body, &page); err != nil || json.Unmarshal(page[l.field], &items) != nil {
				api.Refuse(w, http.StatusConflict, "unusable", fmt.Sprintf("machine %s answers in another form; is its superloop of another version?", s.m.name()))
				return
			}
			_ = json.Unmarshal(page["next_cursor"], &next) // missing on the last page
			more = more || next != ""
			found = append(found, items...)
			continue
		}
		for _, i := range l.away(q.Get, s.m, s.m.last()) {
			if cursor == "" || l.key(i) > cursor {
				found = append(found, i)
			}
		}
	}
	slices.SortStableFunc(found, func(x, y item) int { return strings.Compare(l.key(x), l.key(y)) })
	out := map[string]any{}
	if len(found) > limit {
		// Two machines may have the same key: both, or none, are on a page.
		n := limit
		for n < len(found) && l.key(found[n]) == l.key(found[n-1]) {
			n++
		}
		more = more || n < len(found)
		found = found[:n]
	}
	if more && len(found) > 0 {
		out["next_cursor"] = l.key(found[len(found)-1])
	}
	out[l.field] = found
	answer(w, out)
}

// cost adds up what the machines know. What those cost that are away is not known: their loops are named as unread.
func (g *Gateway) cost(w http.ResponseWriter, r *http.Request, who api.Asker) {
	all := g.ask(r.Context(), asIs(r, who), r.URL.Query().Get("machine"))
	if refusal(w, all) {
		return
	}
	q := r.URL.Query()
	sum := api.Costs{By: q.Get("by"), Step: q.Get("step"), Series: []api.CostSeries{}}
	if sum.By == "" {
		sum.By = "role"
	}
	for _, s := range all {
		if s.err != nil {
			sum.Unread = append(sum.Unread, slices.Sorted(maps.Keys(s.m.last().Rows))...)
			continue
		}
		var one api.Costs
		if err := text.Decode(s.body, &one); err != nil {
			api.Refuse(w, http.StatusConflict, "unusable", fmt.Sprintf("machine %s: %v", s.m.name(), err))
			return
		}
		sum.Merge(one)
	}
	answer(w, sum)
}

// queue puts the queues of machines that have one together.
func (g *Gateway) queue(w http.ResponseWriter, r *http.Request, who api.Asker) {
	type queue struct {
		Limits   slots.Limits      `json:"limits"`
		Loops    []item            `json:"loops"`
		Trackers []json.RawMessage `json:"trackers"`
	}
	sum, n := queue{Loops: []item{}, Trackers: []json.RawMessage{}}, 0
	bound := func(x, y int) int { // 0 is no bound
		if n > 0 && (x == 0 || y == 0) {
			return 0
		}
		return x + y
	}
	for _, s := range g.ask(r.Context(), asIs(r, who), "") {
		var one queue
		if s.err != nil || s.status != http.StatusOK || text.Decode(s.body, &one) != nil {
			continue
		}
		sum.Limits = slots.Limits{Loops: bound(sum.Limits.Loops, one.Limits.Loops), Roles: bound(sum.Limits.Roles, one.Limits.Roles), PerAccount: bound(sum.Limits.PerAccount, one.Limits.PerAccount)}
		sum.Loops, sum.Trackers = append(sum.Loops, one.Loops...), append(sum.Trackers, one.Trackers...)
		n++
	}
	if n == 0 {
		api.Refuse(w, http.StatusServiceUnavailable, "no-view", "no machine of the fleet has a queue: its loops wait for the workers' slots, on the server")
		return
	}
	answer(w, sum)
}

// metrics puts the metrics of all machines together. Each series has the id of its loop, which no other machine has.
func (g *Gateway) metrics(w http.ResponseWriter, r *http.Request, who api.Asker) {
	type family struct{ head, series bytes.Buffer }
	families := map[string]*family{}
	for _, s := range g.ask(r.Context(), asIs(r, who), "") {
		if s.err != nil || s.status != http.StatusOK {
			continue
		}
		seen := map[string]bool{} // families of which an earlier machine has told the head
		for name := range families {
			seen[name] = true
		}
		var now *family
		var name string
		for line := range bytes.Lines(s.body) {
			if word := strings.Fields(text.Cut(string(line), 300)); len(word) > 2 && word[0] == "#" {
				if name = word[2]; families[name] == nil {
					families[name] = &family{}
				}
				if now = families[name]; !seen[name] {
					now.head.Write(line)
				}
			} else if now != nil {
				now.series.Write(line)
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		_, _ = w.Write(append(families[name].head.Bytes(), families[name].series.Bytes()...)) // the client has gone
	}
}
