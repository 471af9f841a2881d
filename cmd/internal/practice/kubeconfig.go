package practice

import (
	"encoding/base64"
	"fmt"

	"gopkg.in/yaml.v3"
)

// access is one cluster and the user who reaches it.
type access struct {
	name   string // of the context, the cluster and the user
	server string
	ca     []byte
	user   keyPair
}

// kubeconfig returns a file with one context per cluster, the first of which is
// the current one. The credentials are inside, so that it can be moved.
func kubeconfig(clusters []access) ([]byte, error) {
	type named struct {
		Name    string         `yaml:"name"`
		Cluster map[string]any `yaml:"cluster,omitempty"`
		Context map[string]any `yaml:"context,omitempty"`
		User    map[string]any `yaml:"user,omitempty"`
	}
	file := struct {
		APIVersion string  `yaml:"apiVersion"`
		Kind       string  `yaml:"kind"`
		Current    string  `yaml:"current-context"`
		Clusters   []named `yaml:"clusters"`
		Contexts   []named `yaml:"contexts"`
		Users      []named `yaml:"users"`
	}{APIVersion: "v1", Kind: "Config"}
	for _, c := range clusters {
		if file.Current == "" {
			file.Current = c.name
		}
		file.Clusters = append(file.Clusters, named{Name: c.name, Cluster: map[string]any{
			"server":                     c.server,
			"certificate-authority-data": base64.StdEncoding.EncodeToString(c.ca),
		}})
		file.Contexts = append(file.Contexts, named{Name: c.name, Context: map[string]any{
			"cluster": c.name,
			"user":    c.name,
		}})
		file.Users = append(file.Users, named{Name: c.name, User: map[string]any{
			"client-certificate-data": base64.StdEncoding.EncodeToString(c.user.cert),
			"client-key-data":         base64.StdEncoding.EncodeToString(c.user.key),
		}})
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return data, nil
}

// writeKubeconfig writes the one file through which people and programs reach
// all the clusters.
func (s *State) writeKubeconfig() error {
	var all []access
	for _, c := range s.Clusters {
		creds := s.running[c.Name].creds
		all = append(all, access{name: c.Name, server: c.Server, ca: creds.ca, user: creds.admin})
	}
	data, err := kubeconfig(all)
	if err != nil {
		return err
	}
	return writeFile(s.Kubeconfig, data)
}
