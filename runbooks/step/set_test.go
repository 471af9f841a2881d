package step_test

import (
	"testing"

	"rutter/runbooks/step"
)

// TestCheckAndSet do without a cluster.
func TestCheckAndSet(t *testing.T) {
	for verb, want := range map[string]any{
		"check: {}": nil,
		"set: {one: '${inputs.name}', two: 'a-${inputs.name}', three: '${[1, 2]}', four: true}": map[string]any{
			"one": "web", "two": "a-web", "three": []any{int64(1), int64(2)}, "four": true,
		},
	} {
		s, err := parse(verb)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Page().Kubectl()) != 0 || s.Page().Effect() != step.Reads || len(s.Page().Permissions()) != 0 {
			t.Errorf("%s: it asks for something", verb)
		}
		a := action(t, verb, "name=web")
		res, err := a.Run(t.Context(), nil, &host{})
		if err != nil {
			t.Fatal(err)
		}
		diff(t, verb, want, res.Value)
		p, err := a.Preview(t.Context(), nil)
		if err != nil || !p.Known {
			t.Errorf("%s: previewed as %+v, %v", verb, p, err)
		}
		diff(t, "preview of "+verb, want, p.Value)
	}
}
