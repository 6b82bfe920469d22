// Package release builds what make release hands out: for each platform an archive with the program, its manual pages and shell
// completions, and one list of checksums. The same commit gives the same bytes, whoever builds it and when.
package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"prodigy/lab/try"
)

// platforms are those that an archive is made for.
var platforms = []struct{ os, arch string }{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

// shells are those that cobra makes completions for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// file is one in an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// Main is the tool.
func Main() {
	version := flag.String("version", "", "the version, as in v1.2.3")
	out := flag.String("out", "dist", "directory to write to")
	flag.Parse()
	try.FailIf(*version == "", "-version is missing")
	release(*version, *out)
}

func release(version, out string) {
	try.Check(os.MkdirAll(out, 0o755))
	shared := sharedFiles(version)
	var sums strings.Builder
	for _, p := range platforms {
		name := fmt.Sprintf("prodigy_%s_%s_%s", strings.TrimPrefix(version, "v"), p.os, p.arch)
		program := build(version, p.os, p.arch)
		pack, ending := tarGz, ".tar.gz"
		if p.os == "windows" {
			pack, ending = zipped, ".zip"
		}
		archive := pack(name, append([]file{program}, shared...))
		try.Check(os.WriteFile(filepath.Join(out, name+ending), archive, 0o644))
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name+ending)
		fmt.Printf("%s: %d bytes\n", filepath.Join(out, name+ending), len(archive))
	}
	try.Check(os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644))
}

// build compiles the program for a platform. Nothing of this machine gets into it.
func build(version, goos, goarch string) file {
	dir := try.To(os.MkdirTemp("", "release-"))
	defer func() { _ = os.RemoveAll(dir) }()
	name := "prodigy"
	if goos == "windows" {
		name += ".exe"
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X prodigy/internal/cli.version="+version, "-o", path, "./cmd/prodigy")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	try.Checkf(cmd.Run(), "build for %s/%s", goos, goarch)
	data := try.To(os.ReadFile(path))
	return file{name, 0o755, data}
}

// sharedFiles are the same for every platform: texts, manual pages and completions.
func sharedFiles(version string) []file {
	var list []file
	for _, name := range []string{"README.md", "LICENSE"} {
		list = append(list, file{name, 0o644, try.To(os.ReadFile(name))})
	}
	dir := try.To(os.MkdirTemp("", "release-"))
	defer func() { _ = os.RemoveAll(dir) }()
	output("go", "test", "./internal/cli", "-tags", "man", "-count=1", "-run", "^TestManualPages$", "-man", dir)
	for _, page := range try.To(filepath.Glob(filepath.Join(dir, "*.1"))) {
		list = append(list, file{"man/" + filepath.Base(page), 0o644, try.To(os.ReadFile(page))})
	}
	for _, shell := range shells {
		list = append(list, file{"completions/prodigy." + shell, 0o644, output("go", "run", "./cmd/prodigy", "completion", shell)})
	}
	return list
}

func output(name string, args ...string) []byte {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	try.Checkf(cmd.Run(), "%s %s", name, strings.Join(args, " "))
	return out.Bytes()
}

// epoch is the time of all files: archives that differ by when they were made could not be compared.
var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func sorted(files []file) []file {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

func tarGz(dir string, files []file) []byte {
	var b bytes.Buffer
	z := try.To(gzip.NewWriterLevel(&b, gzip.BestCompression))
	t := tar.NewWriter(z)
	for _, f := range sorted(files) {
		header := tar.Header{Name: dir + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: epoch, Format: tar.FormatUSTAR}
		try.Check(t.WriteHeader(&header))
		_ = try.To(t.Write(f.data))
	}
	try.Check(t.Close())
	try.Check(z.Close())
	return b.Bytes()
}

func zipped(dir string, files []file) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		header := zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(f.mode)
		w := try.To(z.CreateHeader(&header))
		_ = try.To(io.Copy(w, bytes.NewReader(f.data)))
	}
	try.Check(z.Close())
	return b.Bytes()
}
