package runbook

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
)

// InputType is the type of an input.
type InputType string

// The types of inputs. A secret is a string that is never shown.
const (
	String   InputType = "string"
	Integer  InputType = "integer"
	Number   InputType = "number"
	Boolean  InputType = "boolean"
	Duration InputType = "duration"
	Enum     InputType = "enum"
	Array    InputType = "array"
	Secret   InputType = "secret"
)

// exprType returns the CEL type of values of the input.
func (t InputType) exprType() expr.Type {
	switch t {
	case Integer:
		return expr.Int
	case Number:
		return expr.Double
	case Boolean:
		return expr.Bool
	case Duration:
		return expr.Duration
	case Array:
		return expr.List(expr.String)
	}
	return expr.String
}

// Parse turns text, as given on a command line, into a value of the input:
// string, int64, float64, bool, time.Duration or []any of strings. The error
// says what would be accepted, and never holds the text of a secret.
func (in *Input) Parse(text string) (any, error) {
	v, err := in.convert(text)
	if err != nil {
		return nil, err
	}
	for _, s := range in.texts(v) {
		if in.Pattern != "" && !regexp.MustCompile(`^(?:`+in.Pattern+`)$`).MatchString(s) {
			return nil, fmt.Errorf("input %s: %s does not match %s", in.Name, in.shown(s), in.Pattern)
		}
	}
	return v, nil
}

func (in *Input) convert(text string) (any, error) {
	switch in.Type {
	case Integer:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("input %s: %q is no whole number", in.Name, text)
		}
		return n, nil
	case Number:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f-f != 0 {
			return nil, fmt.Errorf("input %s: %q is no number", in.Name, text)
		}
		return f, nil
	case Boolean:
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("input %s: %q is neither true nor false", in.Name, text)
		}
		return text == "true", nil
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("input %s: %q is no duration: write it as 30s, 5m or 1h30m", in.Name, text)
		}
		return d, nil
	case Enum:
		if !slices.Contains(in.Values, text) {
			hint := diag.DidYouMean(text, in.Values)
			return nil, fmt.Errorf("input %s: %q is none of %s%s", in.Name, text, strings.Join(in.Values, ", "), map[bool]string{true: "; " + hint}[strings.HasPrefix(hint, "did")])
		}
		return text, nil
	case Array:
		return parseArray(in.Name, text)
	}
	return text, nil
}

// parseArray takes a JSON list, or values separated by commas.
func parseArray(name, text string) (any, error) {
	var list []string
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("input %s: %q is no JSON list of strings", name, text)
		}
	} else if text != "" {
		list = strings.Split(text, ",")
	}
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out, nil
}

// texts returns the strings in a value that a pattern applies to.
func (in *Input) texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		out := make([]string, len(v))
		for i, s := range v {
			out[i] = fmt.Sprint(s)
		}
		return out
	}
	return nil
}

func (in *Input) shown(s string) string {
	if in.Type == Secret {
		return "the value"
	}
	return strconv.Quote(s)
}

// Resolve checks the texts that were given for the inputs of rb and returns a
// value for every input, defaults included. The error lists all that is wrong.
func (rb *Runbook) Resolve(given map[string]string) (map[string]any, error) {
	var problems diag.List
	values := map[string]any{}
	for _, name := range sortedKeys(given) {
		if rb.Input(name) == nil {
			var known []string
			for _, in := range rb.Inputs {
				known = append(known, in.Name)
			}
			problems.AddHint(diag.Pos{}, diag.DidYouMean(name, known), "%s has no input %q", rb.Name, name)
		}
	}
	for i := range rb.Inputs {
		in := &rb.Inputs[i]
		text, ok := given[in.Name]
		if !ok {
			if in.Required {
				problems.AddHint(diag.Pos{}, in.ask(), "input %s is missing: %s", in.Name, in.Doc)
			}
			values[in.Name] = in.fallback()
			continue
		}
		v, err := in.Parse(text)
		if err != nil {
			problems.AddHint(diag.Pos{}, in.ask(), "%s", err)
			continue
		}
		values[in.Name] = v
	}
	return values, problems.Err()
}

// fallback is the value of an input that was not given: its default, or the
// empty value of its type, so that expressions over it work.
func (in *Input) fallback() any {
	if in.Default != nil {
		return in.Default
	}
	switch in.Type {
	case Integer:
		return int64(0)
	case Number:
		return float64(0)
	case Boolean:
		return false
	case Duration:
		return time.Duration(0)
	case Array:
		return []any{}
	}
	return ""
}

// ask says what to type to give the input.
func (in *Input) ask() string {
	value := in.Example
	if value == "" {
		value = "…"
	}
	s := fmt.Sprintf("-i %s=%s", in.Name, value)
	if in.Choices.Plural != "" {
		s += "   (kubectl get " + in.Choices.String() + " lists what there is)"
	}
	return s
}
