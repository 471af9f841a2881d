package step_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rutter/runbooks/step"
)

var update = flag.Bool("update", false, "write the golden files anew; then read their diff")

// goldens are typical steps by file. What each is called says what its commands
// have to do; every one of them was given to a real kubectl.
var goldens = map[string][]struct{ name, verb string }{
	"get": {
		{"one", "get: {resource: deployments.apps, namespace: demo, name: web}"},
		{"one that may be missing", "get: {resource: namespaces, name: '${inputs.name}', optional: true}"},
		{"a list", "get: {resource: pods, namespace: '${inputs.ns}', selector: 'app=web,tier!=x'}"},
		{"several everywhere", "get: {resource: [pods, configmaps], allNamespaces: true, fieldSelector: metadata.name=web}"},
		{"some not served", "get: {resource: [pods, gadgets.example.com], namespace: demo, ifServed: true}"},
		{"versions", "get: {resource: [pods.v1, deployments.v1.apps], namespace: demo}"},
		{"columns", `get:
  resource: pods
  namespace: demo
  columns:
  - {head: name, path: .metadata.name}
  - {head: the app, path: .metadata.labels.app\.kubernetes\.io/name}
  - {head: ready, path: '.status.conditions[?(@.type=="Ready")].status'}`},
	},
	"wait": {
		{"condition", "wait: {resource: deployments.apps, namespace: demo, name: web, condition: Available}"},
		{"condition of all", "wait: {resource: pods, namespace: demo, condition: Ready}"},
		{"condition held", "wait: {resource: pods, namespace: demo, selector: app=web, condition: Ready, hold: 1m30s}"},
		{"gone", "wait: {resource: pods, namespace: demo, name: web, gone: true}"},
		{"all gone", "wait: {resource: [pods, configmaps], namespace: demo, gone: true}"},
		{"gone everywhere", "wait: {resource: pods, allNamespaces: true, selector: app=web, gone: true}"},
		{"text", `wait: {resource: namespaces, name: '${inputs.name}', until: 'result.status.phase == "Active"'}`},
		{"empty text", `wait: {resource: namespaces, name: demo, until: 'result.status.phase == ""'}`},
		{"expression", `wait: {resource: pods, namespace: demo, until: 'result.size() > 2', failWhen: 'result.size() > 9'}`},
	},
	"delete": {
		{"one", "delete: {resource: pods, namespace: demo, name: web}"},
		{"marked", "delete: {resource: pods, namespace: '${inputs.ns}', selector: 'app=${inputs.name}'}"},
		{"all of several", "delete: {resource: [pods, configmaps], namespace: demo, all: true}"},
		{"everywhere", "delete: {resource: pods, allNamespaces: true, fieldSelector: status.phase=Failed, wait: false}"},
		{"at once", "delete: {resource: pods, namespace: demo, name: web, gracePeriod: 0, propagation: Orphan}"},
		{"some not served", "delete: {resource: [pods, gadgets.example.com], namespace: demo, selector: app=web, ifServed: true}"},
	},
	"unfinalize": {
		{"one", "unfinalize: {resource: configmaps, namespace: '${inputs.ns}', name: '${inputs.name}', finalizers: [example.com/guard]}"},
		{"cluster-scoped", "unfinalize: {resource: persistentvolumes, selector: app=web, finalizers: [example.com/guard, kubernetes.io/pv-protection]}"},
		{"several everywhere", "unfinalize: {resource: [pods, configmaps], allNamespaces: true, selector: app=web, finalizers: [example.com/guard]}"},
	},
	"patch": {
		{"merge", "patch: {resource: nodes, name: worker, patch: {spec: {unschedulable: true}}}"},
		{"json", "patch: {resource: deployments.apps, namespace: demo, name: web, type: json, patch: [{op: test, path: /spec/replicas, value: 1}, {op: replace, path: /spec/replicas, value: 2}]}"},
		{"strategic", "patch: {resource: deployments.apps, namespace: demo, name: web, type: strategic, patch: {spec: {template: {spec: {terminationGracePeriodSeconds: 5}}}}}"},
		{"selected", "patch: {resource: [pods, configmaps], namespace: demo, selector: app=web, patch: {metadata: {annotations: {note: \"it's <${inputs.name}>\"}}}}"},
		{"everywhere", "patch: {resource: pods, allNamespaces: true, selector: app=web, patch: {metadata: {labels: {seen: 'yes'}}}}"},
		{"optional", "patch: {resource: configmaps, namespace: demo, name: web, optional: true, patch: {data: {a: b}}}"},
		{"status", "patch: {resource: widgets.example.com, namespace: demo, name: w, subresource: status, patch: {status: {phase: Done}}}"},
	},
	"apply": {
		{"namespace and content", `apply:
  manifests:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: '${inputs.ns}'}, data: {a: 'it''s $HOME', script: "cat <<EOF\nx\nEOF\n"}}
  - {apiVersion: v1, kind: Namespace, metadata: {name: demo}}`},
		{"definition and instance", `apply:
  force: true
  status: true
  manifests:
  - apiVersion: example.com/v1
    kind: Sheep
    metadata: {name: dolly, namespace: demo}
    status: {phase: Cloned}
  - apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: sheep.example.com}
    spec:
      group: example.com
      scope: Namespaced
      names: {plural: sheep, singular: sheep, kind: Sheep, listKind: SheepList}
      versions:
      - name: v1
        served: true
        storage: true
        subresources: {status: {}}
        schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`},
	},
	"explain": {
		{"namespace", "explain: {deletion: {resource: namespaces, name: '${inputs.ns}', contents: [pods, configmaps]}}"},
		{"object", "explain: {deletion: {resource: widgets.example.com, namespace: demo, name: w}}"},
	},
	"other": {
		{"command", "command: {args: [helm, get, values, '${inputs.name}', --output, json], effect: reads, output: json}"},
		{"command with everything", "command: {args: [sh, -c, 'cat; echo \"$X\"'], effect: runs here, env: {X: 'a b', Y: '${inputs.name}'}, stdin: no line break}"},
		{"command on a cluster", "cluster: local\ncommand: {args: [liqoctl, info], effect: reads}"},
		{"manual", "manual: {text: \"Look.\\n\\nIs it ${inputs.name}?\", question: 'Well?'}"},
		{"check", "check: {}"},
		{"set", "set: {x: 'a-${inputs.name}'}"},
	},
}

// TestGolden compares the commands and permissions of typical steps.
func TestGolden(t *testing.T) {
	for file, cases := range goldens {
		t.Run(file, func(t *testing.T) {
			var b strings.Builder
			for _, tc := range cases {
				b.WriteString("## " + tc.name + "\n")
				s, err := parse(tc.verb)
				if err != nil {
					t.Fatalf("%s\n%v", tc.verb, err)
				}
				b.WriteString(step.Shell(s.Page().Kubectl(), "") + "\n")
				for _, p := range s.Page().Permissions() {
					b.WriteString("needs: " + step.Readable(p.String()) + "\n")
				}
				b.WriteString("\n")
			}
			compare(t, filepath.Join("testdata", file+".golden"), b.String())
		})
	}
}

func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}
