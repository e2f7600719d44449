export default function Providers() { return null; }
