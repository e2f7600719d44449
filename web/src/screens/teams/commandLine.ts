/** The words of a command as a person types them; quotes keep blanks together. */
export function splitCommand(line: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at]!;
    if (quote !== undefined) {
      if (letter === quote) quote = undefined;
      else word += letter;
    } else if (letter === '"' || letter === "'") {
      quote = letter;
      word ??= "";
    } else if (/\s/.test(letter)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + letter;
    }
  }
  if (word !== undefined) words.push(word);
  return words;
}

/** Words as one line that `splitCommand` takes apart again. */
export function joinCommand(words: string[]): string {
  return words.map(quoted).join(" ");
}

function quoted(word: string): string {
  if (word !== "" && !/[\s'"]/.test(word)) return word;
  // No quote can stand within its own kind: pieces in the other kind are put beside each other.
  return word
    .split(/("+)/)
    .filter((piece) => piece !== "" || word === "")
    .map((piece) => (piece.startsWith('"') ? `'${piece}'` : `"${piece}"`))
    .join("");
}
