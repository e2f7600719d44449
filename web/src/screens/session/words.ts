import type { Piece } from "@/live/socket";

/** What the model is saying: the answer that is to become `step`. */
export interface Words {
  step: number;
  text: string;
  done: boolean;
}

/** Adds a piece to what was heard; a new answer, or one that begins anew, takes its place. */
export function hear(words: Words | undefined, piece: Piece): Words | undefined {
  const { step, text, done, reset } = piece;
  if (typeof step !== "number" || typeof text !== "string") return words;
  // Pieces of an answer that has been followed by another came late.
  if (words && step < words.step) return words;
  const before = words && words.step === step && reset !== true && !words.done ? words.text : "";
  return { step, text: before + text, done: done === true };
}

/** What is still to be shown: once a step is in the journal, the journal has its words. */
export function unwritten(words: Words | undefined, newest: number): Words | undefined {
  return words && words.step > newest && words.text !== "" ? words : undefined;
}
