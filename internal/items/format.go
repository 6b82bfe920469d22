package items

// extensions are the formats that the name of a file tells. Data with another name is sniffed: values of JSON, and lines that are
// none as text.
func extensions() map[string]string {
	return map[string]string{
		".json":   "json",
		".jsonl":  "jsonl",
		".ndjson": "jsonl",
		".csv":    "csv",
		".tsv":    "tsv",
		".tab":    "tsv",
		".yaml":   "yaml",
		".yml":    "yaml",
	}
}

// readers are the ways to read data, by format. Each calls take with what the path selects in each value of the data.
func readers() map[string]func(f *feed, p path, take func([]byte) error) error {
	return map[string]func(f *feed, p path, take func([]byte) error) error{
		"":      (*feed).sniffed,
		"json":  (*feed).json,
		"jsonl": (*feed).jsonl,
		"csv":   (*feed).csv,
		"tsv":   (*feed).tsv,
		"lines": (*feed).lines,
		"nul":   (*feed).nul,
		"yaml":  (*feed).yaml,
	}
}

// read reads data in a format. A byte order mark before it is passed over.
func (f *feed) read(format string, p path, take func([]byte) error) error {
	f.skipMark()
	return readers()[format](f, p, take)
}

func (f *feed) sniffed(p path, take func([]byte) error) error {
	if p.empty() {
		return f.textOrValues(take)
	}
	return f.selected(p, take)
}

func (f *feed) json(p path, take func([]byte) error) error {
	if p.empty() {
		return f.values(take, f.loneArray())
	}
	return f.selected(p, take)
}

func (f *feed) jsonl(p path, take func([]byte) error) error {
	if p.empty() {
		return f.values(take, false)
	}
	return f.selected(p, take)
}
