package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/roles/agent/item"
)

// Sentence says what an event means, as superloop events prints it.
type Sentence struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	Event     string    `json:"event"`
	Iteration int       `json:"iteration"`
	Text      string    `json:"text" doc:"one line without hidden characters"`
	Tone      string    `json:"tone" enum:"normal,faint,good,bad,ask" doc:"what it means to its reader"`
}

// Sentences is a page of sentences.
type Sentences struct {
	Sentences []Sentence `json:"sentences" nullable:"false"`
	After     int64      `json:"after" doc:"the number to continue with"`
	First     int64      `json:"first" doc:"the number of the first event of this page; 0: it has none"`
}

type saidIn struct {
	LoopPath
	After  int64 `query:"after" minimum:"0" doc:"only events with a higher number"`
	Before int64 `query:"before" minimum:"0" doc:"the last ones with a lower number; not with after"`
	EventChoice
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// said tells events as sentences: the first ones behind after, or without it the last ones, before before.
func (a *api) said(_ context.Context, in *saidIn) (*body[Sentences], error) {
	_, p, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	out := Sentences{Sentences: []Sentence{}, After: in.After}
	from, most, last := in.After+1, in.Limit, in.After == 0
	if last && in.EventChoice == (EventChoice{}) { // the last ones stand at the end: all before them need not be read
		end := in.Before - 1
		if in.Before == 0 {
			tail, err := journal.Tail(p.Events(), 1)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, problem(http.StatusConflict, "unreadable-journal", "%v", err)
			}
			for _, ev := range tail {
				end = ev.Seq
			}
		}
		from = max(1, end-int64(in.Limit)+1)
		most, last = int(max(0, end-from+1)), false
	}
	if most > 0 {
		err = journal.Read(p.Events(), from, func(ev journal.Event) error {
			if last && in.Before > 0 && ev.Seq >= in.Before {
				return journal.ErrStop
			}
			if out.After = ev.Seq; !in.has(ev) {
				return nil
			}
			if last && len(out.Sentences) == most {
				out.Sentences = out.Sentences[1:]
			}
			text, tone := a.o.Say(ev)
			out.Sentences = append(out.Sentences, Sentence{ev.Seq, ev.Timestamp, ev.Event, ev.Iteration, text, tone})
			if !last && len(out.Sentences) >= most {
				return journal.ErrStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, problem(http.StatusConflict, "unreadable-journal", "%v", err)
		}
	}
	if len(out.Sentences) > 0 {
		out.First = out.Sentences[0].Seq
	}
	return &body[Sentences]{out}, nil
}

// LogItem is one thing that an agent did, or a line of a log that is no stream of an agent.
type LogItem struct {
	Kind    item.Kind  `json:"kind" enum:"said,thought,call,result,note,end,plain"`
	At      *time.Time `json:"at,omitempty" doc:"by the clock of the agent's program"`
	TookMS  int64      `json:"took_ms,omitempty"`
	Sub     bool       `json:"sub,omitempty" doc:"by an agent that the agent has started"`
	Tool    string     `json:"tool,omitempty"`
	Text    string     `json:"text" doc:"one line without hidden characters"`
	Failed  bool       `json:"failed,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	Lines   int64      `json:"lines,omitempty"`
	CostUSD *float64   `json:"cost_usd" doc:"of an end; null: not known"`
	Tokens  *int64     `json:"tokens" doc:"of an end; null: not known"`
}

// LogItems is a piece of a log.
type LogItems struct {
	File  string    `json:"file" doc:"its name; another attempt has another one"`
	Items []LogItem `json:"items" nullable:"false"`
	From  int64     `json:"from" doc:"where this piece begins, in bytes"`
	After int64     `json:"after" doc:"where to continue, in bytes"`
	Size  int64     `json:"size" doc:"of the log now, in bytes"`
}

// logPiece bounds what one answer reads of a log, in bytes.
const logPiece = 512 << 10

type itemsIn struct {
	LogPath
	After int64 `query:"after" minimum:"0" doc:"continue behind this byte; 0: begin where the last 512 KiB begin"`
}

// items tells what an agent did, from its log. A piece ends with a line, so that a line is told once.
func (a *api) items(ctx context.Context, in *itemsIn) (*body[LogItems], error) {
	file, _, err := a.logFile(ctx, in.LogPath)
	if err != nil {
		return nil, err
	}
	f, info, err := door.Open(file)
	if err != nil {
		return nil, problem(http.StatusConflict, "unusable", "%v", err)
	}
	defer f.Close()
	out := LogItems{File: filepath.Base(file), Items: []LogItem{}, From: in.After, Size: info.Size()}
	cut := false
	if in.After == 0 || in.After > info.Size() { // a log that is shorter was begun anew
		out.From = max(0, info.Size()-logPiece)
		cut = out.From > 0
	}
	data, err := io.ReadAll(io.NewSectionReader(f, out.From, logPiece))
	if err != nil {
		return nil, problem(http.StatusConflict, "unusable", "%v", err)
	}
	if i := bytes.IndexByte(data, '\n'); cut && i >= 0 {
		data, out.From = data[i+1:], out.From+int64(i)+1
	}
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
		data = data[:i+1]
	} else if len(data) < logPiece {
		data = nil // its line is not whole yet
	}
	out.After = out.From + int64(len(data))
	each := func(i item.Item) {
		out.Items = append(out.Items, LogItem{i.Kind, timeOf(i.At), i.Took.Milliseconds(), i.Sub, i.Tool, i.Text, i.Failed, i.Bytes, i.Lines, i.CostUSD, i.Tokens})
	}
	r := item.NewReader(each)
	if name := out.File; !strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "recovery-") {
		r = item.NewPlain(each)
	}
	r.Write(data)
	r.Close()
	return &body[LogItems]{out}, nil
}
