import "./markdown.css";

import { CircleCheck, Circle, Image } from "lucide-react";
import { Children, isValidElement, memo, type ReactNode, useRef } from "react";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import remarkGfm from "remark-gfm";

import { type Block, definitionsOf, type Split, splitBlocks, withDefinitions } from "./blocks";
import { CodeBlock } from "./CodeBlock";

/** A single block that is longer is shown as it was written: reading it would hold up the page. */
const MOST_READ = 12_000;

interface Props {
  text: string;
  /** More of it is coming. */
  streaming?: boolean;
}

/** Markdown as it is meant, without HTML and without anything from outside. Cheap while it grows. */
export default function Markdown({ text, streaming = false }: Props) {
  const before = useRef<Split>(undefined);
  const split = splitBlocks(text, before.current);
  before.current = split;
  const definitions = definitionsOf(split.blocks);
  return (
    <div className="md">
      {split.blocks.map((block, index) => {
        const growing = streaming && index === split.blocks.length - 1;
        return block.code ? (
          <CodeBlock key={block.start} code={block.code.body} language={block.code.language} growing={growing && !block.code.closed} />
        ) : (
          <Prose key={block.start} text={withDefinitions(block.text, definitions)} />
        );
      })}
    </div>
  );
}

const Prose = memo(function Prose({ text }: { text: Block["text"] }) {
  if (text.length > MOST_READ) return <p className="whitespace-pre-wrap">{text.trim()}</p>;
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
      {text}
    </ReactMarkdown>
  );
});

const PLUGINS: Options["remarkPlugins"] = [[remarkGfm, { singleTilde: false }]];

/** Links lead out of the dashboard; a path in a workspace leads nowhere from here. */
function Anchor({ href, children }: { href?: string | undefined; children?: ReactNode }) {
  if (!href || !/^(?:https?:|mailto:)/i.test(href)) return <span className="md-path">{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

function textOf(node: ReactNode): string {
  if (typeof node === "string") return node;
  if (isValidElement<{ children?: ReactNode }>(node)) return textOf(node.props.children);
  return Children.toArray(node)
    .map((child) => (typeof child === "string" ? child : isValidElement(child) ? textOf(child) : ""))
    .join("");
}

/** Code within a list or a quotation; at the top level blocks.ts has found it before. */
function Pre({ children }: { children?: ReactNode }) {
  const code = isValidElement<{ className?: string; children?: ReactNode }>(children) ? children.props : undefined;
  const language = /language-(\S+)/.exec(code?.className ?? "")?.[1] ?? "";
  return <CodeBlock code={textOf(code?.children ?? children).replace(/\n$/, "")} language={language} />;
}

// A page has one h1, and conversations are headed by an h2: an answer's own headings lie below.
const COMPONENTS: Components = {
  h1: ({ children }) => <h3>{children}</h3>,
  h2: ({ children }) => <h4>{children}</h4>,
  h3: ({ children }) => <h5>{children}</h5>,
  h4: ({ children }) => <h6>{children}</h6>,
  h5: ({ children }) => <h6>{children}</h6>,
  a: ({ href, children }) => <Anchor href={href}>{children}</Anchor>,
  img: ({ src, alt }) => (
    <Anchor href={typeof src === "string" ? src : undefined}>
      <Image size={14} aria-hidden className="mr-1 inline align-[-2px]" />
      {alt || "Image"}
    </Anchor>
  ),
  pre: ({ children }) => <Pre>{children}</Pre>,
  table: ({ children }) => (
    <div role="region" aria-label="Table" tabIndex={0} className="md-table">
      <table>{children}</table>
    </div>
  ),
  input: ({ checked }) =>
    checked ? <CircleCheck size={15} role="img" aria-label="Done:" className="md-check text-good" /> : <Circle size={15} role="img" aria-label="To do:" className="md-check text-faint" />,
};
