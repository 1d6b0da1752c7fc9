package remedy

import (
	"fmt"

	"github.com/superloop/superloop/recovery/learn"
)

// adapt changes the confidence of options by what became of them here, and says so in their Experience. A nil past
// changes nothing.
func adapt(list []Option, past func(key string) learn.Past) {
	for i := range list {
		o := &list[i]
		o.base = o.Confidence
		if past == nil {
			continue
		}
		o.past = past(o.Key)
		o.Confidence = o.past.Adapt(o.base)
		o.Experience = o.past.String()
		if was, is := fmt.Sprintf("%.2f", o.base), fmt.Sprintf("%.2f", o.Confidence); was != is {
			o.Experience += ", so its confidence is " + is + " instead of " + was
		}
	}
}

// granted returns the confidence by which superloop decides what runs without an operator. Failures lower it. Successes
// do not raise it, because what was learned grants no permission.
func (o *Option) granted() float64 {
	if o.base == 0 {
		return o.Confidence
	}
	return min(o.base, o.Confidence)
}

// liked returns how much operators prefer an option that is possible here, 0 if they do not.
func (o *Option) liked() int {
	if o.Availability == Impossible || o.Demoted != "" {
		return 0
	}
	return max(o.past.Preference(), 0)
}
