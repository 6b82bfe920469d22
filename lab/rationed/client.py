import asyncio, sys
port, calls, at_once = map(int, sys.argv[1:])
async def call(i, free):
    async with free:
        for attempt in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /%d HTTP/1.0\r\n\r\n" % i)
            answer = (await reader.read()).decode()
            writer.close()
            if " 200 " in answer.split("\r\n")[0]:
                return
            after = [l.split(":")[1] for l in answer.split("\r\n") if l.lower().startswith("retry-after:")]
            await asyncio.sleep(float(after[0]) if after else 2 ** attempt)
async def main():
    free = asyncio.Semaphore(at_once)
    await asyncio.gather(*(call(i, free) for i in range(calls)))
asyncio.run(main())
