package runbook

import (
	"encoding/json"
	"reflect"
	"time"

	"rutter/runbooks/step"
	"rutter/runbooks/yamldoc"
)

// durationPattern matches what time.ParseDuration takes, above zero.
const durationPattern = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

// object is a JSON Schema, or a part of one.
type object = map[string]any

// Schema returns the JSON Schema (draft 2020-12) of runbook files with the
// verbs in kinds. It is made from the struct tags that the decoder follows.
// What a schema cannot say (expressions, references, arguments that exclude
// each other) only Parse checks.
func Schema(kinds []*step.Kind) ([]byte, error) {
	s := schema{kinds: kinds}
	root := s.structure(reflect.TypeFor[document]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Rutter runbook"
	root["$defs"] = object{"step": s.step()}
	return json.MarshalIndent(root, "", "  ")
}

type schema struct{ kinds []*step.Kind }

// step is an object with the common keys and exactly one verb.
func (s schema) step() object {
	def := s.structure(reflect.TypeFor[common]())
	properties := def["properties"].(object)
	var verbs []any
	for _, k := range s.kinds {
		arguments := s.value(reflect.TypeOf(k.New()).Elem(), yamldoc.Field{})
		arguments["description"] = k.Doc
		properties[k.Name] = arguments
		verbs = append(verbs, object{"required": []string{k.Name}})
	}
	def["oneOf"] = verbs
	return def
}

func (s schema) structure(t reflect.Type) object {
	properties := object{}
	var required []string
	for _, f := range yamldoc.Fields(t) {
		p := s.value(f.Type, f)
		if f.Doc != "" {
			p["description"] = f.Doc
		}
		properties[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	} else {
		o["type"] = []string{"object", "null"}
	}
	return o
}

func (s schema) value(t reflect.Type, f yamldoc.Field) object {
	switch t {
	case reflect.TypeFor[stepList]():
		return object{"type": "array", "minItems": 1, "items": object{"$ref": "#/$defs/step"}}
	case reflect.TypeFor[time.Duration]():
		return object{"type": "string", "pattern": durationPattern}
	case reflect.TypeFor[step.Condition]():
		return object{"type": []string{"string", "boolean"}}
	case reflect.TypeFor[yamlNode]():
		return s.node(f)
	}
	if elem, ok := yamldoc.Element(t); ok {
		return object{"type": "object", "additionalProperties": s.value(elem, yamldoc.Field{})}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.value(t.Elem(), f)
	case reflect.Struct:
		return s.structure(t)
	case reflect.Slice:
		return s.list(t, f)
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.value(t.Elem(), yamldoc.Field{})}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return s.text(f)
	}
	return object{}
}

// node is a value that is an expression or a free value, as its key says.
func (s schema) node(f yamldoc.Field) object {
	switch f.Name {
	case "if", "fail", "warn", "pass":
		return object{"type": []string{"string", "boolean"}}
	case "default":
		return object{}
	}
	return object{"type": "string"}
}

func (s schema) text(f yamldoc.Field) object {
	o := object{"type": "string"}
	if len(f.Enum) > 0 {
		o["enum"] = f.Enum
	} else if f.Required {
		o["pattern"] = `\S`
	}
	return o
}

// list is a list, or what may stand for one: its only element, or one
// expression that gives a list of strings.
func (s schema) list(t reflect.Type, f yamldoc.Field) object {
	item := s.value(t.Elem(), yamldoc.Field{Raw: f.Raw, Required: f.Required && t.Elem().Kind() == reflect.String})
	array := object{"type": "array", "items": item}
	if f.Required {
		array["minItems"] = 1
	}
	switch {
	case f.Single:
		return object{"anyOf": []any{array, item}}
	case t.Elem().Kind() == reflect.String && f.Name != "values" && !f.Raw:
		return object{"anyOf": []any{array, object{"type": "string", "pattern": `\$\{`}}}
	}
	return array
}
