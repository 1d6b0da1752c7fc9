package main

import (
	"bytes"
	"encoding/json"
)

// file is prices.json; package price says what its members mean.
type file struct {
	Source    string     `json:"source"`
	URL       string     `json:"url"`
	License   string     `json:"license"`
	Version   string     `json:"version"`
	Date      string     `json:"date"`
	Unit      string     `json:"unit"`
	Providers []provider `json:"-"`
}

type provider struct {
	ID       string   `json:"id"`
	Named    *match   `json:"named,omitempty"`
	Makes    *match   `json:"makes,omitempty"`
	Fallback []string `json:"fallback,omitempty"`
	Models   []model  `json:"-"`
}

type model struct {
	ID    string `json:"id"`
	Is    *match `json:"is,omitempty"` // absent: equals ID
	Rates []rate `json:"rates,omitempty"`
}

type match struct {
	Equals   []string `json:"equals,omitempty"`
	Starts   []string `json:"starts,omitempty"`
	Ends     []string `json:"ends,omitempty"`
	Contains []string `json:"contains,omitempty"`
	Regex    []string `json:"regex,omitempty"`
	All      []match  `json:"all,omitempty"`
	Not      *match   `json:"not,omitempty"`
}

type rate struct {
	From  string   `json:"from,omitempty"`
	Hours []string `json:"hours,omitempty"`
	prices
	Above int64   `json:"above,omitempty"`
	Long  *prices `json:"long,omitempty"`
}

type prices struct {
	Input       json.Number `json:"in,omitempty"`
	Read        json.Number `json:"read,omitempty"`
	Write       json.Number `json:"write,omitempty"`
	WriteAnHour json.Number `json:"write_1h,omitempty"`
	Output      json.Number `json:"out,omitempty"`
}

func (f file) count() (n int) {
	for _, p := range f.Providers {
		for _, m := range p.Models {
			if len(m.Rates) > 0 {
				n++
			}
		}
	}
	return n
}

// encode writes one model a line, so that a new version can be read as a diff.
func (f file) encode() ([]byte, error) {
	var b bytes.Buffer
	open := func(v any) error {
		head, err := compact(v)
		b.Write(bytes.TrimSuffix(head, []byte("}")))
		return err
	}
	if err := open(f); err != nil {
		return nil, err
	}
	b.WriteString(",\n\"providers\":[")
	for i, p := range f.Providers {
		b.WriteString(comma(i))
		if err := open(p); err != nil {
			return nil, err
		}
		b.WriteString(",\"models\":[")
		for i, m := range p.Models {
			b.WriteString(comma(i))
			line, err := compact(m)
			if err != nil {
				return nil, err
			}
			b.Write(line)
		}
		b.WriteString("\n]}")
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

func comma(i int) string {
	if i == 0 {
		return "\n"
	}
	return ",\n"
}

// compact is v as one line, without the escapes that are for HTML.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
