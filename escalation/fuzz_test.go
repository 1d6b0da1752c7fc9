package escalation

import (
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzRecord: nothing but what superloop has written is taken for a record, and a record never says what cannot be.
func FuzzRecord(f *testing.F) {
	r, err := ask(sample(idA).Complete(created))
	check(f, err)
	data, err := encode(r)
	check(f, err)
	answered, err := r.answered(approve(), created)
	check(f, err)
	decided, err := encode(answered)
	check(f, err)
	testkit.Seed(f, data, decided)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, ok := testkit.Decoder[Record]{Decode: decode, Encode: encode, Exact: true}.Check(t, data)
		if !ok {
			return
		}
		if digest, err := r.Question.Digest(); err != nil || digest != r.Digest {
			t.Fatalf("the digest of the question is %s (%v), the record says %s", digest, err, r.Digest)
		}
		if r.State == Approved && (r.Answer == nil || r.Answer.Method == Reject) {
			t.Fatalf("approved by nobody: %+v", r)
		}
	})
}
