package mockapi

import (
	"net/http"
	"strconv"
	"time"
)

// Window is a subscription's limit as Anthropic's headers tell it.
type Window struct {
	// Status is allowed, allowed_warning or rejected.
	Status string
	// Claim is five_hour or seven_day.
	Claim    string
	ResetsAt time.Time
	// Utilization is between 0 and 1.
	Utilization float64
}

// Header are the headers anthropic-ratelimit-unified-*, for Reply.Header of an
// answer that is well or of a refusal.
func (w Window) Header() http.Header {
	const prefix = "Anthropic-Ratelimit-Unified-"
	reset, used := strconv.FormatInt(w.ResetsAt.Unix(), 10), strconv.FormatFloat(w.Utilization, 'f', -1, 64)
	status := w.Status
	if status == "allowed_warning" {
		status = "allowed"
	}
	short := "5h-"
	if w.Claim == "seven_day" {
		short = "7d-"
	}
	h := http.Header{}
	for name, value := range map[string]string{
		"Status": status, "Reset": reset, "Representative-Claim": w.Claim, "Fallback": "unavailable",
		"Overage-Status": "rejected", "Overage-Disabled-Reason": "org_level_disabled",
		short + "Status": w.Status, short + "Reset": reset, short + "Utilization": used,
	} {
		h.Set(prefix+name, value)
	}
	if w.Status == "allowed_warning" {
		h.Set(prefix+short+"Surpassed-Threshold", used)
	}
	return h
}

// Limit is the refusal of an account whose window is used up until resetsAt,
// in the API's own form: claude believes the headers only with a subscription's
// token, codex reads the fields of the error, and Gemini tells of a wait in
// seconds from now.
func Limit(api API, resetsAt time.Time) Reply {
	r := Reply{Status: http.StatusTooManyRequests}
	left := time.Until(resetsAt)
	switch api {
	case Anthropic:
		r.RetryAfter = left
		r.Header = Window{Status: "rejected", Claim: "five_hour", ResetsAt: resetsAt, Utilization: 1}.Header()
	case OpenAI:
		r.ErrorType, r.ErrorMessage = "usage_limit_reached", "The usage limit has been reached"
		r.ErrorFields = map[string]any{"plan_type": "plus", "resets_at": resetsAt.Unix(), "resets_in_seconds": int64(left.Seconds())}
		r.Header = http.Header{}
		for name, value := range map[string]string{"Used-Percent": "100", "Window-Minutes": "300", "Reset-At": strconv.FormatInt(resetsAt.Unix(), 10)} {
			r.Header.Set("X-Codex-Primary-"+name, value)
		}
	case Gemini:
		r.RetryAfter = left
		r.ErrorMessage = "You exceeded your current quota, please check your plan and billing details."
	}
	return r
}
