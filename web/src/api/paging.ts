/** What `$api.useInfiniteQuery` needs for the API's pages. */
export const paged = {
  pageParamName: "cursor",
  // Not undefined: the client would ask for page 0 then.
  initialPageParam: null,
  getNextPageParam: (page: { next_cursor?: string | null }) => page.next_cursor ?? undefined,
};

/** The items of all pages so far, as one list. */
export function itemsOf<T>(data: { pages: { items: T[] }[] } | undefined): T[] {
  return data?.pages.flatMap((page) => page.items) ?? [];
}
