import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

/** So near to the end counts as the end. */
const NEAR = 60;

export interface Scroll {
  scroller: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  onScroll: () => void;
  /** The end is in sight, and stays so when more comes. */
  following: boolean;
  toEnd: () => void;
  /** Stops following and shows an element. */
  show: (element: Element) => void;
  /** Call it before something comes in above: what is seen stays where it is. */
  hold: () => void;
}

/** A conversation that follows its end until somebody scrolls up. */
export function useScroll(first: string | undefined): Scroll {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const before = useRef(0);
  const held = useRef<{ element: HTMLElement; top: number }>(undefined);
  const [following, setFollowing] = useState(true);

  const follow = useCallback((yes: boolean) => {
    follows.current = yes;
    setFollowing(yes);
  }, []);
  const jump = useCallback(() => {
    const box = scroller.current;
    if (box) box.scrollTop = box.scrollHeight;
  }, []);
  const onScroll = useCallback(() => {
    const box = scroller.current!;
    const left = box.scrollHeight - box.clientHeight - box.scrollTop;
    // Content that grows also moves the end away: only going up is a wish to stay.
    if (left < NEAR) follow(true);
    else if (box.scrollTop < before.current) follow(false);
    before.current = box.scrollTop;
  }, [follow]);

  useEffect(() => {
    const observer = new ResizeObserver(() => follows.current && jump());
    observer.observe(content.current!);
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, [jump]);
  useLayoutEffect(() => {
    if (held.current === undefined) return;
    const { element, top } = held.current;
    held.current = undefined;
    if (element.isConnected) scroller.current!.scrollTop += element.offsetTop - top;
  }, [first]);

  const toEnd = useCallback(() => {
    follow(true);
    jump();
  }, [follow, jump]);
  const show = useCallback(
    (element: Element) => {
      follow(false);
      const box = scroller.current!;
      element.scrollIntoView({ block: element.clientHeight > box.clientHeight ? "start" : "center" });
      before.current = box.scrollTop;
    },
    [follow],
  );
  const hold = useCallback(() => {
    const element = content.current!.querySelector<HTMLElement>("article");
    // Measured in the content: somebody may scroll on while it is fetched.
    if (element) held.current = { element, top: element.offsetTop };
  }, []);
  return { scroller, content, onScroll, following, toEnd, show, hold };
}

/** Calls `reach` when the element comes near to what is seen of `root`. */
export function useReach(root: RefObject<HTMLElement | null>, reach: () => void, enabled: boolean): RefObject<HTMLDivElement | null> {
  const mark = useRef<HTMLDivElement>(null);
  const latest = useRef(reach);
  latest.current = reach;
  useEffect(() => {
    if (!enabled || mark.current === null) return;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && latest.current(), {
      root: root.current,
      rootMargin: "300px 0px",
    });
    observer.observe(mark.current);
    return () => observer.disconnect();
  }, [root, enabled]);
  return mark;
}
