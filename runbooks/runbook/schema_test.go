package runbook_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"rutter/runbooks"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := runbook.Schema(step.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("runbook.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("runbook.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(schema *jsonschema.Schema, text string) error {
	j, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	var doc any
	if err := json.Unmarshal(j, &doc); err != nil {
		return err
	}
	return schema.Validate(doc)
}

func TestSchemaAcceptsEveryShippedRunbook(t *testing.T) {
	schema := compileSchema(t)
	n := 0
	err := fs.WalkDir(runbooks.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".drill.yaml") || strings.HasSuffix(name, ".crd.yaml") {
			return err
		}
		n++
		text, err := fs.ReadFile(runbooks.FS, name)
		if err != nil {
			return err
		}
		if err := validate(schema, string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := runbook.Parse(diag.Source{Name: name, Text: string(text)}, step.Builtin()); err != nil {
			t.Errorf("%v", err)
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d runbooks read: %v", n, err)
	}
}

// TestSchemaAndDecoderAgree holds files that are wrong in a way that both can
// see, and odd ones that both must take.
func TestSchemaAndDecoderAgree(t *testing.T) {
	schema := compileSchema(t)
	for _, tc := range []struct {
		name, text string
		ok         bool
	}{
		{"as it should be", stuck, true},
		{"null arguments of a verb without any", head + "- {id: a, check: }\n", true},
		{"empty arguments", head + "- {id: a, check: {}}\n", true},
		{"a condition that is a literal", head + "- {id: a, if: true, check: {}}\n", true},
		{"a list with one element, written as that", head + "- {id: a, get: {resource: nodes}}\n", true},
		{"a list of several", head + "- {id: a, get: {resource: [nodes, namespaces]}}\n", true},
		{"a repeated step", head + "- {id: a, forEach: {items: '[1, 2]', as: it}, check: {}}\n", true},
		{"a repeated step without a name for the item", head + "- {id: a, forEach: {items: '[1, 2]'}, check: {}}\n", false},
		{"a repeated step over a number", head + "- {id: a, forEach: {items: 5, as: it}, check: {}}\n", false},
		{"another apiVersion", strings.Replace(stuck, "rutter/v1", "rutter/v2", 1), false},
		{"another kind", strings.Replace(stuck, "kind: Runbook", "kind: Drill", 1), false},
		{"no title", strings.Replace(stuck, "title: Free it\n", "", 1), false},
		{"an empty title", strings.Replace(stuck, "title: Free it\n", "title: ''\n", 1), false},
		{"a title that is a number", strings.Replace(stuck, "title: Free it\n", "title: 5\n", 1), false},
		{"an unknown top key", stuck + "stepz: []\n", false},
		{"no steps", strings.Replace(head, "steps:\n", "", 1), false},
		{"empty steps", strings.Replace(head, "steps:\n", "steps: []\n", 1), false},
		{"steps that are no list", strings.Replace(head, "steps:\n", "steps: {}\n", 1), false},
		{"a step without id", head + "- {check: {}}\n", false},
		{"a step without verb", head + "- {id: a}\n", false},
		{"a step with two verbs", head + "- {id: a, check: {}, get: {resource: nodes}}\n", false},
		{"an unknown key in a step", head + "- {id: a, check: {}, tmeout: 5s}\n", false},
		{"an unknown argument", head + "- {id: a, get: {resource: nodes, nam: x}}\n", false},
		{"a missing argument", head + "- {id: a, get: {}}\n", false},
		{"null arguments where some are required", head + "- {id: a, get: }\n", false},
		{"a number for text", head + "- {id: a, get: {resource: nodes, name: 5}}\n", false},
		{"text for a boolean", head + "- {id: a, get: {resource: nodes, optional: 'yes'}}\n", false},
		{"no duration", head + "- {id: a, check: {}, timeout: soon}\n", false},
		{"a number as duration", head + "- {id: a, check: {}, timeout: 5}\n", false},
		{"an input of an unknown type", strings.Replace(stuck, "type: boolean", "type: bool", 1), false},
		{"an input without doc", strings.Replace(stuck, ", doc: Whether.", "", 1), false},
		{"an expectation without message", head + "- {id: a, check: {}, expect: [{fail: 'true'}]}\n", false},
		{"an empty rescue", head + "- {id: a, check: {}, rescue: []}\n", false},
		{"a wrong enum of a verb", head + "- {id: a, patch: {resource: nodes, name: x, type: jsn, patch: {a: b}}}\n", false},
		{"a manifest that is no list", head + "- {id: a, apply: {manifests: 5}}\n", false},
	} {
		_, decoded := parse(tc.text)
		schemaErr := validate(schema, tc.text)
		if (decoded == nil) != tc.ok {
			t.Errorf("%s: the decoder says %v", tc.name, decoded)
		}
		if (schemaErr == nil) != tc.ok {
			t.Errorf("%s: the schema says %v", tc.name, schemaErr)
		}
	}
}
