package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"rutter/runbooks/diag"
	"rutter/runbooks/yamldoc"
)

// config is rutter.yaml.
type config struct {
	Site siteConfig `yaml:"site" doc:"How the site is built."`
}

type siteConfig struct {
	Title   string `yaml:"title" doc:"The name of the knowledge base."`
	BaseURL string `yaml:"baseURL" doc:"Where the site will stand, for absolute links."`
	EditURL string `yaml:"editURL" doc:"Where a page's source can be edited; the file's path is added."`
}

// defaultConfig is that of the built-in knowledge base.
func defaultConfig() config { return config{Site: siteConfig{Title: "Liqo FAQ"}} }

// readConfig reads rutter.yaml; a folder without one has the defaults.
func readConfig(path string) (config, error) {
	cfg := defaultConfig()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, nil
	}
	if err != nil {
		return cfg, err
	}
	if strings.TrimSpace(string(text)) == "" {
		return cfg, nil // it only marks the folder
	}
	var list diag.List
	src := diag.Source{Name: configFile, Text: yamldoc.Normalize(string(text))}
	if root := yamldoc.Parse(src, &list); root != nil {
		dec := yamldoc.Decoder{Source: src, List: &list}
		dec.Into(root, &cfg, configFile)
	}
	return cfg, list.Err()
}
