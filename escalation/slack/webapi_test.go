package slack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
)

const (
	botToken  = redact.Secret("xoxb-verysecretverysecret-SECRET")
	channelID = "C012AB3CD"
)

// posted is a message in the workspace, with the fields that Slack's documentation names.
type posted struct {
	Channel   string          `json:"channel,omitempty"`
	TS        string          `json:"ts"`
	Thread    string          `json:"thread_ts,omitempty"`
	Broadcast bool            `json:"reply_broadcast,omitempty"`
	Text      string          `json:"text"`
	Blocks    json.RawMessage `json:"blocks,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	edits     int
}

// webAPI plays Slack's Web API: it checks tokens, scopes and arguments, and answers as Slack does.
type webAPI struct {
	t      *testing.T
	mu     sync.Mutex
	all    []*posted
	calls  []string
	scopes []string
	// refuse returns the word with which a call is refused, or a status above 200 with a Retry-After, or "".
	refuse func(method string, n int) string
	// lost is the number of the call of chat.postMessage whose answer breaks off, from 1.
	lost, posts int
}

func newWebAPI(t *testing.T) (*webAPI, *Bot) {
	t.Helper()
	w := &webAPI{t: t, scopes: []string{"chat:write", "channels:history"}}
	s := server(t, w.ServeHTTP)
	return w, bot(t, s.URL+"/api/")
}

func bot(t *testing.T, url string) *Bot {
	t.Helper()
	b, err := NewBot("team", botToken, channelID, BotOptions{Style: Style{Buttons: true}, APIURL: url})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (w *webAPI) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	w.calls = append(w.calls, method)
	answer := func(a map[string]any) {
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(rw).Encode(a)
	}
	no := func(word string, more ...string) {
		a := map[string]any{"ok": false, "error": word}
		if len(more) > 0 {
			a["needed"], a["provided"] = more[0], strings.Join(w.scopes, ",")
		}
		answer(a)
	}
	if r.Header.Get("Authorization") != "Bearer "+botToken.Reveal() {
		no("invalid_auth")
		return
	}
	if w.refuse != nil {
		switch word := w.refuse(method, len(w.calls)); {
		case word == "429":
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusTooManyRequests)
			no("ratelimited")
			return
		case word == "503":
			rw.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(rw, "<html>upstream</html>")
			return
		case word != "":
			no(word)
			return
		}
	}
	need := "chat:write"
	if strings.HasPrefix(method, "conversations.") {
		need = "channels:history"
	}
	if !slices.Contains(w.scopes, need) {
		no("missing_scope", need)
		return
	}
	switch method {
	case "chat.postMessage", "chat.update":
		w.write(rw, r, method, answer, no)
	case "conversations.history", "conversations.replies":
		w.read(r, method, answer, no)
	default:
		no("unknown_method")
	}
}

func (w *webAPI) write(rw http.ResponseWriter, r *http.Request, method string, answer func(map[string]any), no func(string, ...string)) {
	var p posted
	d := json.NewDecoder(r.Body)
	if err := d.Decode(&p); err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		no("invalid_json")
		return
	}
	switch at := w.find(p.TS); {
	case p.Channel != channelID:
		no("channel_not_found")
	case p.Text == "" && len(p.Blocks) == 0:
		no("no_text")
	case method == "chat.update" && at == nil:
		no("message_not_found")
	case method == "chat.update":
		at.Text, at.Blocks, at.Metadata = p.Text, p.Blocks, p.Metadata
		at.edits++
		answer(map[string]any{"ok": true, "channel": p.Channel, "ts": at.TS, "text": at.Text})
	case p.Thread != "" && w.find(p.Thread) == nil:
		no("thread_not_found")
	default:
		w.posts++
		p.TS = fmt.Sprintf("17%08d.%06d", w.posts, w.posts)
		w.all = append(w.all, &p)
		if w.posts == w.lost {
			reset(rw, r)
			return
		}
		answer(map[string]any{"ok": true, "channel": p.Channel, "ts": p.TS, "message": p})
	}
}

func (w *webAPI) read(r *http.Request, method string, answer func(map[string]any), no func(string, ...string)) {
	if err := r.ParseForm(); err != nil || r.PostForm.Get("channel") != channelID {
		no("channel_not_found")
		return
	}
	thread := r.PostForm.Get("ts")
	if method == "conversations.replies" && w.find(thread) == nil {
		no("thread_not_found")
		return
	}
	var found []*posted
	for _, p := range slices.Backward(w.all) { // the newest first
		in := p.Thread == "" || p.Broadcast
		if method == "conversations.replies" {
			in = p.Thread == thread || p.TS == thread
		}
		if c := *p; in {
			if r.PostForm.Get("include_all_metadata") != "true" {
				c.Metadata = nil
			}
			found = append(found, &c)
		}
	}
	from, _ := strconv.Atoi(r.PostForm.Get("cursor"))
	limit, _ := strconv.Atoi(r.PostForm.Get("limit"))
	to := min(from+max(limit, 1), len(found))
	a := map[string]any{"ok": true, "messages": found[min(from, to):to], "has_more": to < len(found)}
	if to < len(found) {
		a["response_metadata"] = map[string]any{"next_cursor": strconv.Itoa(to)}
	}
	answer(a)
}

func (w *webAPI) find(ts string) *posted {
	if i := slices.IndexFunc(w.all, func(p *posted) bool { return p.TS == ts }); i >= 0 {
		return w.all[i]
	}
	return nil
}

// lose deletes all messages.
func (w *webAPI) lose() { w.mu.Lock(); defer w.mu.Unlock(); w.all = nil }

// shows are the messages, one line each: where they stand, how often they were changed, their buttons, their words.
func (w *webAPI) shows() (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.all {
		where := "channel"
		if p.Thread != "" {
			where = "thread of " + p.Thread[2:10]
		}
		if p.Broadcast {
			where += " and channel"
		}
		buttons := ""
		if strings.Contains(string(p.Blocks), `"superloop_`) {
			buttons = " with buttons"
		}
		lines = append(lines, fmt.Sprintf("%s, %d edits%s: %s", where, p.edits, buttons, p.Text))
	}
	return lines
}

// answeredMessage is the answer to opened.
func answeredMessage() notify.Message {
	m := opened()
	return notify.Message{ID: "e1:resolved", Escalation: "e1", Kind: notify.Resolved, Loop: m.Loop, Repo: m.Repo, Status: "approved", Command: m.Command,
		WorkingDir: ".", Digest: digest, By: "cli:ada (uid 1000)", At: m.Created, Created: m.Created}
}
