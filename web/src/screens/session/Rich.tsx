import { lazy, Suspense } from "react";

const Markdown = lazy(() => import("@/ui/markdown/Markdown"));

/** Text of a model as Markdown; as plain text until what renders it has come. */
export function Rich({ text, streaming = false }: { text: string; streaming?: boolean }) {
  return (
    <Suspense fallback={<p className="text-sm break-words whitespace-pre-wrap">{text}</p>}>
      <Markdown text={text} streaming={streaming} />
    </Suspense>
  );
}
