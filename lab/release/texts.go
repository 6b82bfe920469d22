package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"prodigy/lab/try"
)

// release is what the texts are filled from: the one list of files, and where they will be.
type release struct {
	Version  string // without the v
	Repo     string // where it is published: host/owner/name
	Owner    string
	Base     string // the URL of the directory of the files
	Schema   string // the JSON Schema of workflow files
	Files    []published
	Archives map[string]published // by system and processor, as in linux_amd64

	out string // the directory that the files are written to
}

// published is a file that people download.
type published struct {
	Name string
	Sum  string // its SHA-256, in hexadecimal
}

var (
	tag        = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
	repository = regexp.MustCompile(`^[\w-]+(\.[\w-]+)+/[\w.-]+/[\w.-]+$`)
)

// newRelease refuses what only stands for a version or a place of publication: it would be in every text.
func newRelease(version, repo, out string) *release {
	try.FailIf(!tag.MatchString(version), "version %q: must look like v1.2.3; tag the commit, or use VERSION=v1.2.3", version)
	try.FailIf(!repository.MatchString(repo) || strings.Contains(repo, "OWNER"),
		"%q is not a place of publication; use REPO=github.com/OWNER/prodigy with the real owner", repo)
	return &release{
		Version: version[1:], Repo: repo, Owner: path.Base(path.Dir(repo)), Base: "https://" + repo + "/releases/download/" + version,
		Archives: map[string]published{}, out: out,
	}
}

// add writes a file that people download.
func (r *release) add(name string, data []byte) published {
	f := published{name, fmt.Sprintf("%x", sha256.Sum256(data))}
	r.Files = append(r.Files, f)
	try.Write(filepath.Join(r.out, name), string(data))
	fmt.Printf("%s: %d bytes\n", filepath.Join(r.out, name), len(data))
	return f
}

// addModules writes an SBOM: of which modules a program is built.
func (r *release) addModules(program file, archive published) {
	info := try.To(buildinfo.Read(bytes.NewReader(program.data)))
	r.add(archive.Name+".spdx.json", filled("parts/sbom.json", map[string]any{"Release": r, "Info": info, "Archive": archive}))
}

// addPackages writes the packages of Linux distributions.
func (r *release) addPackages(name, arch string, content []file) {
	dir := try.To(os.MkdirTemp("", "release-"))
	defer func() { _ = os.RemoveAll(dir) }()
	for _, f := range content {
		try.Write(filepath.Join(dir, f.name), string(f.data))
	}
	config := filepath.Join(dir, "nfpm.yml")
	try.Write(config, string(filled("parts/nfpm.yml", map[string]any{"Release": r, "Arch": arch, "Dir": dir})))
	for _, format := range []string{"deb", "rpm"} {
		path := filepath.Join(dir, "package."+format)
		try.Run(exec.Command("go", "tool", "-modfile=tools/release.mod", "nfpm", "package", "-f", config, "-p", format, "-t", path))
		r.add(name+"."+format, try.To(os.ReadFile(path)))
	}
}

// templates are of the texts, which are written below the same names, and of parts of other files.
//
//go:embed all:texts parts
var templates embed.FS

// fill writes the texts, and the checksums of what people download: all but the texts in directories, which are for package managers.
func (r *release) fill() {
	for _, name := range try.To(fs.Glob(templates, "texts/*.*")) {
		r.add(path.Base(name), filled(name, r))
	}
	for _, name := range try.To(fs.Glob(templates, "texts/*/*")) {
		target := strings.ReplaceAll(strings.TrimPrefix(name, "texts/"), "OWNER", r.Owner)
		try.Write(filepath.Join(r.out, target), string(filled(name, r)))
	}
	try.Write(filepath.Join(r.out, "SHA256SUMS"), string(filled("parts/SHA256SUMS", r)))
}

// filled fills the template of that name.
func filled(name string, data any) []byte {
	return []byte(try.Fill(string(try.To(templates.ReadFile(name))), data))
}
