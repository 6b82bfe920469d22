# Turns screens of a terminal, as tmux capture-pane -e writes them, a file each, into an SVG that plays them. Equal screens
# become one frame that stays longer, and a line that several frames have is written once. A line that is a form feed stands
# between two panes. To run with LC_ALL=C, since bytes are counted.
BEGIN {
	tick = 0.25; width = 8.4; height = 17; columns = 100
	split("#767676 #f2777a #99cc99 #ffcc66 #6699cc #cc99cc #66cccc #cccccc", low, " ")
	split("#8a8a8a #ff8b8e #b5e8b5 #ffe08a #8ab8e8 #e0b3e0 #8ae0e0 #ffffff", high, " ")
}

FNR == 1 { if (NR > 1) show(); rows = 0 }
{ row[++rows] = $0 }
END { show(); print_svg() }

# show adds what was read as a frame, or makes the frame before last longer.
function show(   i, uses, id) {
	uses = ""
	for (i = 1; i <= rows; i++) {
		if (row[i] ~ /^ *$/) continue
		if (!(row[i] in known)) {
			known[row[i]] = ++lines
			defs = defs "<g id=\"l" lines "\">" line(row[i]) "</g>\n"
		}
		uses = uses "<use href=\"#l" known[row[i]] "\" y=\"" (i * height) "\"/>"
	}
	if (rows > most) most = rows
	ticks++
	if (uses == last) return
	last = uses
	frame[++frames] = uses
	starts[frames] = ticks - 1
}

# line returns a row with its colors: a text for each part of it that has one.
function line(s,   out, at, part, style, n) {
	if (s == "\f") # between two panes
		return sprintf("<rect y=\"%d\" width=\"%d\" height=\"1\" fill=\"%s\"/>", -height / 3, columns * width, low[1])
	out = ""; at = 0; style = ""
	while (s != "") {
		if (match(s, /^\033\[[0-9;]*m/)) {
			n = RLENGTH
			style = styled(style, substr(s, 3, n - 3))
			s = substr(s, n + 1)
			continue
		}
		sub(/^\033[^a-zA-Z]*[a-zA-Z]?/, "", s) # says nothing that is drawn
		if (s == "") break
		n = match(s, /\033/)
		part = n ? substr(s, 1, n - 1) : s
		s = n ? substr(s, n) : ""
		n = wide(part)
		if (part !~ /^ *$/)
			out = out sprintf("<text x=\"%.1f\" textLength=\"%.1f\"%s>%s</text>", at * width, n * width, style, escaped(part))
		at += n
	}
	return out
}

# styled returns the attributes after codes, such as 1;31, which change those before.
function styled(before, codes,   n, list, i, c, fill, more) {
	n = split(codes == "" ? "0" : codes, list, ";")
	fill = before; more = before
	if (!match(fill, / fill="[^"]*"/)) fill = ""; else fill = substr(fill, RSTART, RLENGTH)
	gsub(/ fill="[^"]*"/, "", more)
	for (i = 1; i <= n; i++) {
		c = list[i] + 0
		if (c == 0) { fill = ""; more = "" }
		else if (c == 1) more = " font-weight=\"bold\""
		else if (c == 2) fill = " fill=\"" low[1] "\""
		else if (c == 22) more = ""
		else if (c == 39) fill = ""
		else if (c >= 30 && c <= 37) fill = " fill=\"" low[c - 29] "\""
		else if (c >= 90 && c <= 97) fill = " fill=\"" high[c - 89] "\""
		else if (c == 38 && list[i + 1] == 5) {
			c = list[i + 2]; i += 2
			fill = " fill=\"" (c < 8 ? low[c + 1] : c < 16 ? high[c - 7] : cube(c)) "\""
		}
	}
	return fill more
}

# cube returns a color of the 256 of xterm.
function cube(c,   g) {
	if (c >= 232) { g = 8 + (c - 232) * 10; return sprintf("#%02x%02x%02x", g, g, g) }
	c -= 16
	return sprintf("#%02x%02x%02x", step(int(c / 36)), step(int(c / 6) % 6), step(c % 6))
}
function step(n) { return n ? 55 + n * 40 : 0 }

# wide returns the number of characters: bytes that continue one are not counted.
function wide(s) { gsub(/[\200-\277]/, "", s); return length(s) }

function escaped(s) {
	gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s)
	return s
}

function print_svg(   w, h, i, hold) {
	hold = 20 # ticks that the last frame stays
	w = int(columns * width) + 24; h = most * height + 24
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", w, h, w, h
	print "<title>A run is killed with kill -9 and resumed: nothing is lost</title>"
	print "<style>"
	print "text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; }"
	printf ".film { animation: play %.2fs steps(1, end) infinite; }\n@keyframes play {\n", (ticks + hold) * tick
	for (i = 1; i <= frames; i++)
		printf "%.2f%% { transform: translateX(%dpx); }\n", 100 * starts[i] / (ticks + hold), -w * (i - 1)
	printf "}\n@media (prefers-reduced-motion: reduce) { .film { animation: none; transform: translateX(%dpx); } }\n", -w * (frames - 1)
	print "</style>"
	printf "<defs>\n%s</defs>\n<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#24272b\"/>\n", defs, w, h
	print "<g class=\"film\" fill=\"#d3d0c8\">"
	for (i = 1; i <= frames; i++)
		printf "<g transform=\"translate(%d 8)\">%s</g>\n", w * (i - 1) + 12, frame[i]
	print "</g>\n</svg>"
}
