package items

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
