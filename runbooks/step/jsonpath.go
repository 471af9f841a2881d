package step

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// jsonPath is the part of kubectl's JSONPath that columns need: fields, indexes,
// [*], and filters that compare a field with a text. Field names may hold
// escaped dots: .metadata.labels.app\.kubernetes\.io/name.
type jsonPath []pathStep

// pathStep is one of a field, an index, all items, or a filter.
type pathStep struct {
	field  string
	index  int
	all    bool
	filter jsonPath
	equals string
}

var (
	fieldRE  = regexp.MustCompile(`^\.((?:[^.\[\]\\\s,]|\\.)+)`)
	quotedRE = regexp.MustCompile(`^\['([^']+)'\]`)
	indexRE  = regexp.MustCompile(`^\[(-?[0-9]+|\*)\]`)
	filterRE = regexp.MustCompile(`^\[\?\(@(\.[^=\s]+?)\s*==\s*["']([^"']*)["']\)\]`)
)

// parsePath reads a path such as .status.conditions[?(@.type=="Ready")].status.
func parsePath(s string) (jsonPath, error) {
	var p jsonPath
	for rest := s; rest != ""; {
		step, n, err := parseStep(rest)
		if err != nil {
			return nil, fmt.Errorf("path %s: %w", s, err)
		}
		p, rest = append(p, step), rest[n:]
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("path %q: want one such as .status.phase", s)
	}
	return p, nil
}

func parseStep(s string) (pathStep, int, error) {
	if m := fieldRE.FindStringSubmatch(s); m != nil {
		return pathStep{field: regexp.MustCompile(`\\(.)`).ReplaceAllString(m[1], "$1")}, len(m[0]), nil
	}
	if m := quotedRE.FindStringSubmatch(s); m != nil {
		return pathStep{field: m[1]}, len(m[0]), nil
	}
	if m := indexRE.FindStringSubmatch(s); m != nil {
		if m[1] == "*" {
			return pathStep{all: true}, len(m[0]), nil
		}
		i, err := strconv.Atoi(m[1])
		return pathStep{index: i}, len(m[0]), err
	}
	if m := filterRE.FindStringSubmatch(s); m != nil {
		filter, err := parsePath(m[1])
		return pathStep{filter: filter, equals: m[2]}, len(m[0]), err
	}
	return pathStep{}, 0, fmt.Errorf("cannot read it from %q on", s)
}

// find returns the values at the path, in order.
func (p jsonPath) find(v any) []any {
	at := []any{v}
	for _, step := range p {
		var next []any
		for _, v := range at {
			next = append(next, step.from(v)...)
		}
		at = next
	}
	return at
}

func (s pathStep) from(v any) []any {
	if s.field != "" {
		m, _ := v.(map[string]any)
		if x, ok := m[s.field]; ok && x != nil {
			return []any{x}
		}
		return nil
	}
	list, _ := v.([]any)
	switch {
	case s.all:
		return list
	case s.filter != nil:
		var out []any
		for _, item := range list {
			if found := s.filter.find(item); len(found) == 1 && cell(found[0]) == s.equals {
				out = append(out, item)
			}
		}
		return out
	}
	i := s.index
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return list[i : i+1]
}

// cells returns values as one cell of a table, as kubectl prints them.
func cells(values []any) string {
	if len(values) == 0 {
		return "<none>"
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = cell(v)
	}
	return strings.Join(texts, ",")
}

// cell returns one value as text: lists in brackets, objects as JSON.
func cell(v any) string {
	switch v := v.(type) {
	case map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return err.Error()
		}
		return string(text)
	case []any:
		texts := make([]string, len(v))
		for i, item := range v {
			texts[i] = cell(item)
		}
		return "[" + strings.Join(texts, " ") + "]"
	}
	return fmt.Sprint(v)
}
