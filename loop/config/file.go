package config

import (
	"bytes"
	"encoding/json"
	"time"
)

// file is config.json as it is written, after the schema has had its say. The
// types below never refuse: what they cannot read, the schema has named.
type file struct {
	Runner       *fileRunner           `json:"runner"`
	Runners      map[string]fileRunner `json:"runners"`
	RoleDefaults map[string]fileRole   `json:"role_defaults"`
	Loops        []fileLoop            `json:"loops"`
	Prices       map[string]fileRate   `json:"prices"`
	Webhooks     struct {
		OnEscalation string `json:"on_escalation"`
	} `json:"webhooks"`
	Escalation fileEscalation `json:"escalation"`
	Respond    fileRespond    `json:"respond"`
}

type fileRunner struct {
	Command    words             `json:"command"`
	Args       []string          `json:"args"`
	FastArgs   []string          `json:"fast_args"`
	PromptMode string            `json:"prompt_mode"`
	Env        map[string]string `json:"env"`

	Adapter     string   `json:"adapter"`
	Permissions string   `json:"permissions"`
	PassEnv     []string `json:"pass_env"`
}

type fileRate struct {
	Input      float64  `json:"input"`
	Output     float64  `json:"output"`
	CacheRead  *float64 `json:"cache_read"`
	CacheWrite *float64 `json:"cache_write"`
}

type fileRole struct {
	Runner     string       `json:"runner"`
	Model      string       `json:"model"`
	Runners    []fileChoice `json:"runners"`
	Thinking   string       `json:"thinking"`
	Timeout    seconds      `json:"timeout"`
	Inactivity seconds      `json:"inactivity"`

	Session     string `json:"session"`
	Permissions string `json:"permissions"`
}

type fileLoop struct {
	ID                string   `json:"id"`
	SpecFile          string   `json:"spec_file"`
	MaxIterations     int      `json:"max_iterations"`
	MaxWallTime       seconds  `json:"max_wall_time"`
	MaxCostUSD        float64  `json:"max_cost_usd"`
	MaxTokens         int64    `json:"max_tokens"`
	CompletionPromise string   `json:"completion_promise"`
	Checklists        []string `json:"checklists"`
	Tests             struct {
		Mode     string   `json:"mode"`
		Commands []string `json:"commands"`
		Timeout  seconds  `json:"timeout"`
	} `json:"tests"`
	Validation struct {
		Enabled             bool           `json:"enabled"`
		Mode                string         `json:"mode"`
		RequireOnCompletion bool           `json:"require_on_completion"`
		Commands            []string       `json:"commands"`
		Timeout             seconds        `json:"timeout"`
		Preflight           *filePreflight `json:"preflight"`
	} `json:"validation"`
	Prerequisites struct {
		Enabled             bool        `json:"enabled"`
		RequireOnCompletion bool        `json:"require_on_completion"`
		Checks              []fileCheck `json:"checks"`
	} `json:"prerequisites"`
	Evidence struct {
		Enabled             bool     `json:"enabled"`
		RequireOnCompletion bool     `json:"require_on_completion"`
		Artifacts           []string `json:"artifacts"`
	} `json:"evidence"`
	Approval struct {
		Enabled             bool `json:"enabled"`
		RequireOnCompletion bool `json:"require_on_completion"`
	} `json:"approval"`
	ReviewerPacket struct {
		Enabled bool `json:"enabled"`
	} `json:"reviewer_packet"`
	Timeouts struct {
		Enabled     *bool   `json:"enabled"`
		Default     seconds `json:"default"`
		Planner     seconds `json:"planner"`
		Implementer seconds `json:"implementer"`
		Tester      seconds `json:"tester"`
		Reviewer    seconds `json:"reviewer"`
		Inactivity  seconds `json:"inactivity"`
	} `json:"timeouts"`
	Stuck struct {
		Enabled   bool     `json:"enabled"`
		Threshold *int     `json:"threshold"`
		Action    string   `json:"action"`
		Ignore    []string `json:"ignore"`
	} `json:"stuck"`
	Git struct {
		CommitStrategy    string `json:"commit_strategy"`
		PreCommitCommands words  `json:"pre_commit_commands"`
		CommitMessage     struct {
			MaxSubjectLength int `json:"max_subject_length"`
		} `json:"commit_message"`
		Worktree bool `json:"worktree"`
	} `json:"git"`
	Retry struct {
		Attempts int     `json:"attempts"`
		Backoff  seconds `json:"backoff_seconds"`
	} `json:"retry"`
	Roles   fileRoles   `json:"roles"`
	Respond fileRespond `json:"respond"`
}

type filePreflight struct {
	Enabled           *bool    `json:"enabled"`
	Entry             string   `json:"entry"`
	WebRoot           string   `json:"web_root"`
	RequiredSelectors []string `json:"required_selectors"`
	RequiredText      []string `json:"required_text"`
	MinScriptBytes    int      `json:"min_script_bytes"`
	MaxScriptKB       int      `json:"max_script_kb"`
	RequireScripts    bool     `json:"require_scripts"`
}

type fileCheck struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Path     string   `json:"path"`
	Pattern  string   `json:"pattern"`
	Flags    string   `json:"flags"`
	Needles  []string `json:"needles"`
	MinChars *int     `json:"min_chars"`
}

// words is a list, or one string that has yet to be split.
type words struct {
	list   []string
	text   string
	isText bool
}

func (w *words) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &w.text) == nil {
		w.isText = true
		return nil
	}
	_ = json.Unmarshal(b, &w.list) // the schema has named what is no string
	return nil
}

// seconds is a time as a number of seconds or as text such as "8h".
type seconds struct {
	d      time.Duration
	set    bool // the key is there
	number bool // it is a number
}

func (s *seconds) UnmarshalJSON(b []byte) error {
	s.set = true
	var n float64
	if json.Unmarshal(b, &n) == nil {
		const year = 366 * 24 * 3600 // the schema has refused what is longer
		s.number, s.d = true, time.Duration(min(max(n, 0), year)*float64(time.Second))
		return nil
	}
	var text string
	if json.Unmarshal(b, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			s.d = d
		}
	}
	return nil
}

// or is the time, or another one when the key is not there.
func (s seconds) or(d time.Duration) time.Duration {
	if s.set {
		return s.d
	}
	return d
}

// fileRoles is a list of names in their order, or an object with settings.
type fileRoles struct {
	names    []string
	settings map[string]fileRole
	isObject bool
}

func (r *fileRoles) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("{")) {
		r.isObject = true
		_ = json.Unmarshal(b, &r.settings) // the schema has named what does not fit
		for _, name := range roleOrder() {
			if _, ok := r.settings[name]; ok {
				r.names = append(r.names, name)
			}
		}
		return nil
	}
	_ = json.Unmarshal(b, &r.names)
	return nil
}

// roleOrder is the order in which roles run when nobody gives another one.
func roleOrder() []string { return []string{"planner", "implementer", "tester", "reviewer"} }
