import { memo, useMemo } from "react";

import { CopyButton } from "@/ui/Copy";

import { useHighlighted } from "./highlight";

/** More than this is shown plain: marking its words would hold up the page. */
const MOST_MARKED = 20_000;
/** While it grows it is marked anew with each piece. */
const MOST_MARKED_GROWING = 4_000;

interface Props {
  code: string;
  language: string;
  growing?: boolean;
}

export const CodeBlock = memo(function CodeBlock({ code, language, growing = false }: Props) {
  const marked = useHighlighted(code, language, code.length <= (growing ? MOST_MARKED_GROWING : MOST_MARKED));
  const name = language || "text";
  // What comes from highlight.js is escaped: it only adds spans around words.
  const html = useMemo(() => (marked === undefined ? undefined : { __html: marked }), [marked]);
  return (
    <figure className="md-code">
      <figcaption>
        <span>{name}</span>
        <CopyButton text={code} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} role="region" aria-label={`Code, ${name}`}>
        {html === undefined ? <code>{code}</code> : <code dangerouslySetInnerHTML={html} />}
      </pre>
    </figure>
  );
});
