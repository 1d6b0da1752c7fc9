package mockapi

// Usage counts tokens in four disjoint kinds, as agent.Usage does: Input is
// neither read from nor written to a cache, Output includes Reasoning.
type Usage struct {
	Input, CacheRead, CacheWrite, Output, Reasoning int64
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Output + v.Output, u.Reasoning + v.Reasoning}
}

// prompt is the whole input, as OpenAI and Gemini count it.
func (u Usage) prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// as is what the API can tell of u.
func (u Usage) as(api API) Usage {
	u.Reasoning = min(u.Reasoning, u.Output)
	switch api {
	case Anthropic:
		u.Reasoning = 0
	case Gemini:
		u.Input, u.CacheWrite = u.Input+u.CacheWrite, 0
	}
	return u
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// meter derives usage. It remembers how much the last request of each session
// held.
type meter map[string]int64

// measure is what the call and its answer cost.
func (m meter) measure(c Call, a answer) Usage {
	u := Usage{Input: tokens(len(c.Body))}
	if c.Session != "" && !c.Side && c.API != Gemini {
		key := string(c.API) + " " + c.Session
		before, again := m[key]
		m[key] = u.Input
		if again {
			u.CacheRead = min(before, u.Input)
		} else {
			u.CacheWrite = u.Input / 2
		}
		u.Input -= u.CacheRead + u.CacheWrite
	}
	bytes := len(a.Text)
	for _, t := range a.calls {
		bytes += len(t.input)
	}
	u.Reasoning = tokens(len(a.Thinking))
	u.Output = max(1, tokens(bytes)+u.Reasoning)
	return u
}
