package loop

import "reflect"

// answering gives a fact the id of the pending effect, if it answers one and says
// none itself.
func answering(s State, f Fact) Fact {
	a, ok := f.(Answer)
	if !ok || a.Effect() != "" || s.Pending == nil {
		return f
	}
	if p, sweep := f.(ProposalStale); sweep && s.Pending.Kind != TakeProposal {
		return p
	}
	v := reflect.New(reflect.TypeOf(f)).Elem()
	v.Set(reflect.ValueOf(f))
	if of := v.FieldByName("Of"); of.IsValid() {
		of.Set(reflect.ValueOf(To(*s.Pending)))
	} else if id := v.FieldByName("ID"); id.IsValid() {
		id.SetString(s.Pending.ID)
	} else {
		v.FieldByName("EffectID").SetString(s.Pending.ID)
	}
	return v.Interface().(Fact)
}
